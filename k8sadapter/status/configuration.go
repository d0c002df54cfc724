package status

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// Labels and conditions of ConfigurationStates, as MetalLB has them.
const (
	LabelComponent = "metallb.io/component-type" // controller or speaker
	LabelNodeName  = "metallb.io/node-name"      // of a speaker's

	ConditionController = "poolReconcilerValid"
	ConditionSpeaker    = "configReconcilerValid"

	reasonReconciled         = "Reconciled"
	reasonConfigurationError = "ConfigurationError"
)

// ConfigurationConfig configures a Configuration.
type ConfigurationConfig struct {
	// Store is where the object lives. Required.
	Store Store[*v1beta1.ConfigurationState]
	// Name is the name of the object. Required.
	Name string
	// Labels are the labels that the object gets and is watched by: LabelComponent, and LabelNodeName for a speaker's.
	Labels map[string]string
	// Owner is the daemon's pod: the object goes with it. Nil: it stays when the daemon goes.
	Owner *metav1.OwnerReference
	// Condition is the type of its only condition: ConditionController or ConditionSpeaker.
	Condition string
	// Logger receives writes that failed and are tried again, at Warn. Nil discards.
	Logger *slog.Logger
}

// Configuration keeps the ConfigurationState of one daemon.
type Configuration struct {
	cfg ConfigurationConfig
	keeper
	inf cache.SharedIndexInformer

	mu     sync.Mutex
	known  bool
	errors []string
}

// NewConfiguration returns a Configuration that says nothing before the first Set.
func NewConfiguration(cfg ConfigurationConfig) *Configuration {
	lw := cfg.Store.ListerWatcher(selector(cfg.Labels))
	return &Configuration{
		cfg: cfg, keeper: newKeeper(cfg.Logger),
		inf: cache.NewSharedIndexInformer(lw, &v1beta1.ConfigurationState{}, 0, cache.Indexers{}),
	}
}

// Set says what is wrong with the configuration now, a text for each rejected object; none means that it is valid. It
// never blocks.
func (c *Configuration) Set(errors []string) {
	c.mu.Lock()
	c.known, c.errors = true, errors
	c.mu.Unlock()
	c.changed()
}

// Run writes until ctx is cancelled, and returns nil then. It may be called once.
func (c *Configuration) Run(ctx context.Context) error { return c.run(ctx, c.inf, c.reconcile) }

func (c *Configuration) reconcile(ctx context.Context) error {
	c.mu.Lock()
	known, errors := c.known, c.errors
	c.mu.Unlock()
	if !known {
		return nil
	}
	var have *v1beta1.ConfigurationState
	for _, o := range c.inf.GetStore().List() {
		if s, ok := o.(*v1beta1.ConfigurationState); ok && s.Name == c.cfg.Name {
			have = s
		}
	}
	if have == nil {
		obj := &v1beta1.ConfigurationState{ObjectMeta: metav1.ObjectMeta{Name: c.cfg.Name, Labels: maps.Clone(c.cfg.Labels)}}
		if c.cfg.Owner != nil {
			obj.OwnerReferences = []metav1.OwnerReference{*c.cfg.Owner}
		}
		made, err := c.cfg.Store.Create(ctx, obj)
		if err != nil {
			return err
		}
		have = made
	}
	next := have.DeepCopy()
	next.Status = c.verdict(have.Status, errors)
	if equalVerdict(have.Status, next.Status) {
		return nil
	}
	_, err := c.cfg.Store.UpdateStatus(ctx, next)
	return err
}

// verdict is the status that the errors make. The transition time of the condition moves only when its truth does.
func (c *Configuration) verdict(before v1beta1.ConfigurationStateStatus, errors []string) v1beta1.ConfigurationStateStatus {
	cond := metav1.Condition{
		Type: c.cfg.Condition, Status: metav1.ConditionTrue, Reason: reasonReconciled, LastTransitionTime: metav1.NewTime(time.Now()),
	}
	out := v1beta1.ConfigurationStateStatus{Result: v1beta1.ConfigurationValid}
	if len(errors) > 0 {
		out.Result, out.ErrorSummary = v1beta1.ConfigurationInvalid, strings.Join(errors, "\n")
		cond.Status, cond.Reason, cond.Message = metav1.ConditionFalse, reasonConfigurationError, out.ErrorSummary
	}
	const limit = 32768 // of a condition's message, by its schema
	if len(cond.Message) > limit {
		// Half a character would come back from the API server as another one, and be written again for ever.
		cond.Message = strings.ToValidUTF8(cond.Message[:limit], "")
	}
	for _, b := range before.Conditions {
		if b.Type == cond.Type && b.Status == cond.Status {
			cond.LastTransitionTime = b.LastTransitionTime
		}
	}
	out.Conditions = []metav1.Condition{cond}
	return out
}

func equalVerdict(a, b v1beta1.ConfigurationStateStatus) bool {
	if a.Result != b.Result || a.ErrorSummary != b.ErrorSummary || len(a.Conditions) != len(b.Conditions) {
		return false
	}
	for i := range a.Conditions {
		x, y := a.Conditions[i], b.Conditions[i]
		if x.Type != y.Type || x.Status != y.Status || x.Reason != y.Reason || x.Message != y.Message {
			return false
		}
	}
	return true
}

func selector(labels map[string]string) string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
}
