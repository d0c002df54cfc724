package labnet

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDiagnose(t *testing.T) {
	denied := &os.SyscallError{Syscall: "clone", Err: syscall.EPERM}
	tests := []struct {
		name  string
		files map[string]string
		euid  int
		err   error
		want  []string
		not   []string
	}{
		{
			name:  "Debian of old",
			files: map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0\n"},
			euid:  1000, err: denied,
			want: []string{"kernel.unprivileged_userns_clone is 0", "do this: sudo sysctl kernel.unprivileged_userns_clone=1", "or this: run it as root: sudo make demo"},
		},
		{
			name:  "Ubuntu with AppArmor",
			files: map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n", "proc/sys/kernel/unprivileged_userns_clone": "1\n"},
			euid:  1000, err: denied,
			want: []string{"AppArmor restricts", "kernel.apparmor_restrict_unprivileged_userns=0"},
			not:  []string{"unprivileged_userns_clone"},
		},
		{
			name:  "limit of zero",
			files: map[string]string{"proc/sys/user/max_user_namespaces": "0\n"},
			euid:  1000, err: syscall.ENOSPC,
			want: []string{"user.max_user_namespaces", "sudo make demo"},
		},
		{
			name:  "container as root",
			files: map[string]string{".dockerenv": "", "proc/sys/kernel/unprivileged_userns_clone": "0\n"},
			euid:  0, err: denied,
			want: []string{"container", "--privileged"},
			not:  []string{"sudo", "unprivileged_userns_clone"},
		},
		{
			name: "nothing found",
			euid: 0, err: denied,
			want: []string{"operation not permitted", "CAP_SYS_ADMIN and CAP_NET_ADMIN"},
		},
		{
			name: "kernel without namespaces",
			euid: 0, err: syscall.EINVAL,
			want: []string{"CONFIG_USER_NS"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, content := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(content)}
			}
			err := diagnose(root, tt.euid, tt.err)
			var privilege *PrivilegeError
			require.ErrorAs(t, err, &privilege)
			require.ErrorIs(t, err, tt.err)
			for _, want := range tt.want {
				assert.Contains(t, err.Error(), want)
			}
			for _, not := range tt.not {
				assert.NotContains(t, err.Error(), not)
			}
		})
	}
}

func TestDiagnoseLeavesOtherErrorsAlone(t *testing.T) {
	require.NoError(t, diagnose(fstest.MapFS{}, 0, nil))
	other := errors.Join(fs.ErrNotExist)
	assert.Equal(t, other, diagnose(fstest.MapFS{}, 0, other))
}

func TestLinkErrorNamesTheDriver(t *testing.T) {
	err := linkError("make the bridge", "bridge", syscall.EOPNOTSUPP)
	assert.ErrorContains(t, err, "modprobe bridge")
	err = linkError("make the cable", "veth", syscall.EEXIST)
	assert.EqualError(t, err, "make the cable: file exists")
}
