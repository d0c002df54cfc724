package controller

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }
