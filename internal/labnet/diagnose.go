package labnet

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// PrivilegeError says that the machine does not let this process make the
// namespaces of a sandbox, or lacks a part of the kernel, and what to do.
type PrivilegeError struct {
	// Err is what the kernel answered.
	Err error
	// Causes are the settings found that explain it, one sentence each; empty
	// when none was found.
	Causes []string
	// Remedies are commands or steps, in the order of preference.
	Remedies []string
}

// Error implements error in several lines.
func (e *PrivilegeError) Error() string {
	var b strings.Builder
	b.WriteString("cannot build a network out of namespaces here: " + e.Err.Error())
	for _, cause := range e.Causes {
		b.WriteString("\n  because: " + cause)
	}
	for i, remedy := range e.Remedies {
		b.WriteString("\n  " + map[bool]string{true: "do this: ", false: "or this: "}[i == 0] + remedy)
	}
	return b.String()
}

// Unwrap returns the kernel's answer.
func (e *PrivilegeError) Unwrap() error { return e.Err }

// knob is a kernel setting that can forbid a sandbox.
type knob struct {
	path   string // below /proc
	bad    string // the value that forbids
	cause  string
	remedy string
}

func userNamespaceKnobs() []knob {
	return []knob{
		{
			"sys/kernel/unprivileged_userns_clone", "0",
			"this kernel lets only root make user namespaces (kernel.unprivileged_userns_clone is 0)",
			"sudo sysctl kernel.unprivileged_userns_clone=1",
		},
		{
			"sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor restricts user namespaces of ordinary users (kernel.apparmor_restrict_unprivileged_userns is 1)",
			"sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
		},
		{
			"sys/user/max_user_namespaces", "0",
			"the limit of user namespaces is zero (user.max_user_namespaces)",
			"sudo sysctl user.max_user_namespaces=10000",
		},
	}
}

func limitKnobs() []knob {
	return []knob{
		{
			"sys/user/max_net_namespaces", "0",
			"the limit of network namespaces is zero (user.max_net_namespaces)",
			"sudo sysctl user.max_net_namespaces=10000",
		},
		{
			"sys/user/max_pid_namespaces", "0",
			"the limit of PID namespaces is zero (user.max_pid_namespaces)",
			"sudo sysctl user.max_pid_namespaces=10000",
		},
	}
}

// diagnose explains why the kernel refused err. root is the machine's file
// system, of which it reads settings in /proc. An error that has nothing to do
// with privileges or missing parts of the kernel is returned as it is.
func diagnose(root fs.FS, euid int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
	case errors.Is(err, syscall.EINVAL):
		return &PrivilegeError{
			Err:      err,
			Causes:   []string{"the kernel is built without user, PID or network namespaces"},
			Remedies: []string{"use a kernel with CONFIG_USER_NS, CONFIG_PID_NS and CONFIG_NET_NS"},
		}
	default:
		return err
	}

	e := &PrivilegeError{Err: err}
	knobs := limitKnobs()
	if euid != 0 {
		knobs = append(userNamespaceKnobs(), knobs...)
	}
	for _, k := range knobs {
		value, readErr := fs.ReadFile(root, "proc/"+k.path)
		if readErr == nil && strings.TrimSpace(string(value)) == k.bad {
			e.Causes = append(e.Causes, k.cause)
			e.Remedies = append(e.Remedies, k.remedy)
		}
	}
	if len(e.Causes) == 0 && inContainer(root) {
		e.Causes = append(e.Causes, "this is a container whose runtime forbids namespaces")
		e.Remedies = append(e.Remedies, "start the container with --privileged")
	}
	if euid != 0 {
		e.Remedies = append(e.Remedies, "run it as root: sudo make demo")
	}
	if len(e.Remedies) == 0 {
		e.Remedies = append(e.Remedies, "give this process CAP_SYS_ADMIN and CAP_NET_ADMIN")
	}
	return e
}

// inContainer recognises the marks that Docker and Podman leave.
func inContainer(root fs.FS) bool {
	for _, mark := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(root, mark); err == nil {
			return true
		}
	}
	return false
}
