package main

import (
	"context"
	"errors"

	"github.com/heraldlb/herald/internal/labnet"
)

// keep prints how to enter the namespaces and waits for Ctrl-C.
func (s *story) keep(ctx context.Context, inner *labnet.Inner) error {
	pause, err := s.spawn("pause on client", s.client, labnet.PauseCommand())
	if err != nil {
		return err
	}
	rows := [][]string{{"HOST", "ENTER IT FROM ANOTHER TERMINAL WITH"}}
	hosts := map[string]*daemon{"client": pause, "controller": s.controller}
	names := []string{"client", "controller"}
	for _, n := range s.nodes {
		hosts[n.Name] = n.speaker
		names = append(names, n.Name)
	}
	for _, name := range names {
		command, err := inner.EnterCommand(hosts[name].PID())
		if err != nil {
			return err
		}
		rows = append(rows, []string{name, command})
	}
	s.out.step("the network stays up until Ctrl-C")
	s.out.table(rows)
	s.out.text("    The manifests are in %s there: edit them and see what happens. The logs are in %s.", s.manifests, s.logs)
	s.out.text("")
	<-ctx.Done()
	if cause := context.Cause(ctx); errors.Is(cause, errDied) {
		return cause
	}
	return nil
}
