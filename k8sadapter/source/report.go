package source

import (
	"log/slog"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// report tells of what has become wrong, or right again, since the last look:
// one log line for each, and one Event for each rejected document.
func (f *Files) report(m merged) {
	f.rejected = m.rejected
	current := make(map[string]*Problem)
	note := func(problems []*Problem, tell func(*Problem)) {
		for _, p := range problems {
			id := p.identity()
			if f.problems[id] == nil && current[id] == nil {
				tell(p)
			}
			current[id] = p
		}
	}
	note(m.rejected, func(p *Problem) { f.reportRejected(p, m) })
	note(m.ignored, f.warnIgnored)
	note(m.warnings, f.warnNoEffect)
	for id, p := range f.problems {
		if current[id] == nil {
			f.logger.Info("problem of a manifest is over", p.attrs()...)
		}
	}
	f.problems = maps.Clone(current)
}

func (f *Files) warnOf(m merged) {
	for _, p := range m.ignored {
		f.warnIgnored(p)
	}
	for _, p := range m.warnings {
		f.warnNoEffect(p)
	}
}

func (f *Files) warnIgnored(p *Problem) {
	f.logger.Warn("manifest ignored", p.attrs()...)
}

func (f *Files) warnNoEffect(p *Problem) {
	f.logger.Warn("part of a manifest has no effect", p.attrs()...)
}

func (f *Files) reportRejected(p *Problem, m merged) {
	attrs := append(p.attrs(), slog.Bool("lastGoodInForce", m.keeps(p)))
	f.logger.Warn("manifest rejected", attrs...)
	f.events.add(p.Object(), corev1.EventTypeWarning, ReasonRejected, p.Error())
}

// keeps tells whether an older version of what the problem is about is in force.
func (m *merged) keeps(p *Problem) bool {
	for _, e := range m.entries {
		if e.kept && !e.placeholder && e.file == p.File && (p.Name == "" || e.obj.GetName() == p.Name) {
			return true
		}
	}
	return false
}

// attrs are the attributes of a log line about the problem.
func (p *Problem) attrs() []any {
	attrs := []any{slog.String("file", p.File)}
	if p.Line > 0 {
		attrs = append(attrs, slog.Int("line", p.Line))
	}
	for _, field := range []struct{ key, value string }{
		{"kind", p.Kind},
		{"namespace", p.Namespace},
		{"name", p.Name},
	} {
		if field.value != "" {
			attrs = append(attrs, slog.String(field.key, field.value))
		}
	}
	return append(attrs, slog.Any("error", p.Err))
}
