# Every target does its work from a fresh clone; `make help` lists them. The
# tiers of the tests are in .ci/tiers, which CI runs in the same way.

SHELL = /bin/sh
GO = go
TOOL = $(GO) tool -modfile=.ci/tools/go.mod
FUZZTIME = 10s
BENCH = .

.PHONY: help build demo test test-unit test-netns test-e2e lint fmt generate \
	check-generated tidy-check arch fuzz bench e2e-server clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' Makefile

build: ## Build bin/controller, bin/speaker and bin/lab
	@.ci/progress "building the daemons and the lab" $(GO) build -v -o bin/ ./daemons/controller ./daemons/speaker ./examples/lab

demo: build ## Show three Services on a network in a box, and a failover
	@bin/lab

test: ## Run everything: formatting to fuzzing, with network namespaces and a real API server
	@FUZZTIME=$(FUZZTIME) .ci/tiers

test-unit: ## Run the tests that need nothing but Go and a C compiler, with -race
	@.ci/tiers prerequisites unit

test-netns: ## Run the tests in network namespaces (as root, or with user namespaces)
	@.ci/tiers prerequisites netns

test-e2e: ## Run the tests against a real kube-apiserver and etcd (first build about 10 minutes)
	@.ci/tiers prerequisites e2e

lint: ## Run golangci-lint (first build 5 to 10 minutes)
	@.ci/tiers prerequisites lint

fmt: ## Format every Go file
	@git ls-files -co --exclude-standard '*.go' | xargs $(TOOL) gofumpt -w

generate: ## Generate deep copies and CustomResourceDefinitions from k8sadapter/api
	@.ci/progress "generating" .ci/generate .

check-generated: ## Fail when generated files are not fresh
	@.ci/tiers prerequisites generated

tidy-check: ## Fail when a go.mod or go.sum is not tidy
	@.ci/tiers prerequisites tidy

arch: ## Check which package imports which, and the rules for sources
	@.ci/tiers prerequisites architecture

fuzz: ## Run every fuzz target for FUZZTIME (default 10s)
	@FUZZTIME=$(FUZZTIME) .ci/tiers prerequisites fuzz

bench: ## Run the benchmarks that match BENCH (default all)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./allocator/... ./election/... ./membership/... ./announce/... ./bgp/... ./k8sadapter/config/...

e2e-server: ## Build daemons/e2e/bin/controlplane, the API server for tests and for the lab
	@.ci/tiers prerequisites e2e-server

clean: ## Remove what was built
	rm -rf bin daemons/e2e/bin
