package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write is one request of the audit log that could change something.
type Write struct {
	User      string // as authenticated, such as system:serviceaccount:metallb-system:controller
	Verb      string // create, update, patch, delete or deletecollection
	Resource  string // with subresource: services/status
	Namespace string
	Name      string
	Code      int // HTTP status of the answer
}

func (w Write) String() string {
	return fmt.Sprintf("%s %s %s %s/%s: %d", w.User, w.Verb, w.Resource, w.Namespace, w.Name, w.Code)
}

// AuditLog returns every write since the first start of the server, in the
// order in which they were answered.
func (s *Server) AuditLog(t testing.TB) []Write {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "audit.log"))
	require.NoError(t, err)
	if end := bytes.LastIndexByte(data, '\n'); end >= 0 {
		data = data[:end] // the last line may be half written
	}
	var writes []Write
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if len(line) > 0 {
			writes = append(writes, decodeWrite(t, line))
		}
	}
	return writes
}

func decodeWrite(t testing.TB, line []byte) Write {
	t.Helper()
	var event struct {
		Verb string
		User struct{ Username string }

		ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus struct{ Code int }
	}
	require.NoError(t, json.Unmarshal(line, &event), "audit.log: %s", line)
	ref := event.ObjectRef
	return Write{
		User: event.User.Username, Verb: event.Verb, Resource: strings.TrimSuffix(ref.Resource+"/"+ref.Subresource, "/"),
		Namespace: ref.Namespace, Name: ref.Name, Code: event.ResponseStatus.Code,
	}
}

// WritesOf returns the writes of service accounts of [Namespace], those to the
// Leases of leader election left out: they are the only ones that go on while
// nothing happens.
func (s *Server) WritesOf(t testing.TB, accounts ...string) []Write {
	t.Helper()
	var users []string
	for _, account := range accounts {
		users = append(users, serviceAccountUser(account))
	}
	var writes []Write
	for _, w := range s.AuditLog(t) {
		if slices.Contains(users, w.User) && w.Resource != "leases" {
			writes = append(writes, w)
		}
	}
	return writes
}

func serviceAccountUser(account string) string {
	return "system:serviceaccount:" + Namespace + ":" + account
}
