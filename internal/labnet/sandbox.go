package labnet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lifelineFD is the descriptor by which process 1 of a sandbox learns that
// the program outside has gone: its read end, whose only writer is outside.
const lifelineFD = 3

// SandboxConfig says how to start a sandbox.
type SandboxConfig struct {
	// Role is the argument zero of process 1, see [Dispatch]. Required.
	Role string
	// Args are its other arguments.
	Args []string
	// Stdin, Stdout and Stderr are handed over; nil means none.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// UserNamespace asks for a user namespace even where the process is root.
	// Who is not root gets one in any case.
	UserNamespace bool
}

// Sandbox is a running process 1 with all that lives under it.
type Sandbox struct {
	process  *os.Process
	lifeline *os.File
	done     chan struct{}
	code     int
	err      error
}

// StartSandbox starts process 1 of a new sandbox. The error is a
// [*PrivilegeError] when the machine does not allow it; it says what to do.
//
// The sandbox ends when its process 1 does, and at the latest with the calling
// process: killing either with SIGKILL leaves nothing behind.
func StartSandbox(cfg SandboxConfig) (*Sandbox, error) {
	userNamespace := cfg.UserNamespace || os.Geteuid() != 0
	s, err := startSandbox(cfg, userNamespace)
	if errors.Is(err, syscall.EPERM) && !userNamespace {
		// Root without the capabilities of root, as in many containers.
		s, err = startSandbox(cfg, true)
	}
	if err != nil {
		return nil, diagnose(os.DirFS("/"), os.Geteuid(), err)
	}
	return s, nil
}

func startSandbox(cfg SandboxConfig, userNamespace bool) (*Sandbox, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("labnet: lifeline: %w", err)
	}
	defer r.Close()

	cmd := SelfCommand(cfg.Role, cfg.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cfg.Stdin, cfg.Stdout, cfg.Stderr
	cmd.ExtraFiles = []*os.File{r} // becomes lifelineFD
	cmd.SysProcAttr = sandboxAttr(userNamespace)

	s := &Sandbox{lifeline: w, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent death signal is bound to the thread that started the
		// child, so this goroutine keeps its thread until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.wait(cmd)
		}
	}()
	if err := <-started; err != nil {
		w.Close()
		return nil, err
	}
	s.process = cmd.Process
	return s, nil
}

// sandboxAttr returns the attributes of process 1.
func sandboxAttr(userNamespace bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if userNamespace {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

func (s *Sandbox) wait(cmd *exec.Cmd) {
	err := cmd.Wait()
	s.lifeline.Close()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.Exited():
		s.code = exit.ExitCode()
	default:
		s.code = 1
		s.err = fmt.Errorf("labnet: process 1 of the sandbox ended: %w", err)
	}
	close(s.done)
}

// PID returns the process number of process 1 as seen from outside.
func (s *Sandbox) PID() int { return s.process.Pid }

// Signal sends a signal to process 1. One that has ended already is no error.
func (s *Sandbox) Signal(sig os.Signal) error {
	if err := s.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("labnet: signal the sandbox: %w", err)
	}
	return nil
}

// Wait waits for the end of the sandbox and returns the exit status of its
// process 1. The error says that it did not exit by itself.
func (s *Sandbox) Wait() (code int, err error) {
	<-s.done
	return s.code, s.err
}

// Inner is a sandbox as its process 1 sees it.
type Inner struct {
	// Scratch is the path of an empty tmpfs, the only place to write files to.
	Scratch string

	outside *os.Root // the /proc of the machine
}

// InitSandbox is the first call of a sandbox's process 1. It detaches the
// mounts from those of the machine, gives the sandbox a /proc of its own where
// the machine allows it, and mounts an empty tmpfs over some directory. The
// paths in keep stay visible: the tmpfs goes elsewhere.
//
// From then on the process exits as soon as the program outside is gone.
func InitSandbox(keep ...string) (*Inner, error) {
	watchLifeline()
	outside, err := os.OpenRoot("/proc")
	if err != nil {
		return nil, fmt.Errorf("labnet: /proc: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, diagnose(os.DirFS("/"), os.Geteuid(), fmt.Errorf("make mounts private: %w", err))
	}
	// Without it (a container that hides parts of /proc forbids it) process
	// numbers in /proc are those of the machine; nothing here depends on them.
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")

	scratch, err := scratchPoint([]string{"/mnt", "/media", "/srv", "/run", "/var/tmp", "/tmp"}, keep)
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("herald-lab", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=128m"); err != nil {
		return nil, diagnose(os.DirFS("/"), os.Geteuid(), fmt.Errorf("mount tmpfs on %s: %w", scratch, err))
	}
	return &Inner{Scratch: scratch, outside: outside}, nil
}

// OutsidePID returns the number by which the machine knows the process that
// the sandbox knows as pid: the one to give to nsenter(1).
func (in *Inner) OutsidePID(pid int) (int, error) {
	space, err := os.Readlink("/proc/thread-self/ns/pid")
	if err != nil {
		return 0, fmt.Errorf("labnet: %w", err)
	}
	entries, err := fs.ReadDir(in.outside.FS(), ".")
	if err != nil {
		return 0, fmt.Errorf("labnet: list processes: %w", err)
	}
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if link, err := in.outside.Readlink(entry.Name() + "/ns/pid"); err != nil || link != space {
			continue // of another namespace, another user's, or just ended
		}
		status, err := in.outside.ReadFile(entry.Name() + "/status")
		if err == nil && lastNumber(string(status), "NSpid:") == pid {
			return number, nil
		}
	}
	return 0, fmt.Errorf("labnet: process %d of the sandbox is not visible outside", pid)
}

// EnterCommand returns the command by which somebody outside gets a shell in
// the network, on the scratch file system, and in the user namespace if there
// is one, of a process that the sandbox knows as pid.
func (in *Inner) EnterCommand(pid int) (string, error) {
	number, err := in.OutsidePID(pid)
	if err != nil {
		return "", err
	}
	user := ""
	if in.hasUserNamespace() {
		user = "-U --preserve-credentials "
	}
	return fmt.Sprintf("nsenter %s-n -m -t %d", user, number), nil
}

// hasUserNamespace reports whether the sandbox has a user namespace of its own:
// one that its parent outside is not in. The parent's is unreadable from there.
func (in *Inner) hasUserNamespace() bool {
	own, err := os.Readlink("/proc/thread-self/ns/user")
	if err != nil {
		return false
	}
	self, err := in.OutsidePID(os.Getpid())
	if err != nil {
		return false
	}
	status, err := in.outside.ReadFile(strconv.Itoa(self) + "/status")
	if err != nil {
		return false
	}
	link, err := in.outside.Readlink(strconv.Itoa(lastNumber(string(status), "PPid:")) + "/ns/user")
	return err != nil || link != own
}

// lastNumber returns the last number of a line of a /proc/PID/status file; 0
// when there is none. The last of NSpid is the process number in the innermost
// namespace.
func lastNumber(status, line string) int {
	for text := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(text, line); ok {
			fields := strings.Fields(numbers)
			if len(fields) > 0 {
				number, _ := strconv.Atoi(fields[len(fields)-1])
				return number
			}
		}
	}
	return 0
}

// watchLifeline exits the process at the end of file of the lifeline.
func watchLifeline() {
	lifeline := os.NewFile(lifelineFD, "lifeline")
	unix.CloseOnExec(lifelineFD)
	go awaitLifeline(lifeline)
}

func awaitLifeline(lifeline *os.File) {
	_, _ = io.Copy(io.Discard, lifeline)
	os.Exit(1)
}

// scratchPoint returns the first directory of candidates that exists and
// under which none of the paths in keep lies.
func scratchPoint(candidates, keep []string) (string, error) {
	for _, dir := range candidates {
		hides := func(path string) bool {
			return path == dir || strings.HasPrefix(path, dir+"/")
		}
		if slices.ContainsFunc(keep, hides) {
			continue
		}
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", fmt.Errorf("labnet: no directory to mount a scratch file system on: none of %s is free",
		strings.Join(candidates, ", "))
}
