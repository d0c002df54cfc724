package labnet

import (
	"maps"
	"os"
	"os/exec"
)

// The roles that the package itself plays. They are the argument zero of a
// process, so that a process list tells what each of them is for.
const (
	backendRole = "herald-lab-backend"
	pauseRole   = "herald-lab-pause"
)

// Dispatch runs the role that argument zero names and exits with its result;
// it returns when argument zero names none. Programs and test binaries that
// use the package call it first. extra holds the caller's own roles.
func Dispatch(extra map[string]func() int) {
	roles := map[string]func() int{
		backendRole: backendMain,
		pauseRole:   pauseMain,
	}
	maps.Copy(roles, extra)
	if role, ok := roles[os.Args[0]]; ok {
		os.Exit(role())
	}
}

// SelfCommand returns a command that starts the running executable in another
// role.
func SelfCommand(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = role
	return cmd
}
