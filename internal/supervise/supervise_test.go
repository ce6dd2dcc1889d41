package supervise

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// beChild makes the test binary a child that behaves as its value says.
const beChild = "SUPERVISE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(beChild) {
	case "":
		goleak.VerifyTestMain(m)
	case "exit 3":
		os.Exit(3)
	case "exit 78":
		os.Exit(78)
	case "polite": // ends on SIGTERM, with success
		Watch()
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		touch(os.Args[1])
		<-c
		os.Exit(0)
	case "deaf": // ignores SIGTERM
		Watch()
		signal.Ignore(syscall.SIGTERM)
		touch(os.Args[1])
		select {}
	case "silent": // says one thing, then nothing, and waits
		Watch()
		SendSign(Alive)
		touch(os.Args[1])
		select {}
	case "busy": // the same, computing
		Watch()
		touch(os.Args[1])
		for work := sha256.Sum256(nil); ; {
			work = sha256.Sum256(work[:])
		}
	case "reading": // the same, reading a file and hardly computing
		Watch()
		touch(os.Args[1])
		zero, _ := os.Open("/dev/zero")
		for range time.Tick(20 * time.Millisecond) {
			_, _ = zero.Read(make([]byte, 1<<20))
		}
	case "talking":
		Watch()
		touch(os.Args[1])
		for range time.Tick(oftenEnough) {
			SendSign(Ready)
		}
	case "reloads": // listens for SIGHUP after a while, and counts it by bytes of a file
		Watch()
		touch(os.Args[1])
		time.Sleep(200 * time.Millisecond)
		c := make(chan os.Signal, 8)
		signal.Notify(c, syscall.SIGHUP)
		file, _ := os.Create(os.Args[1] + ".hangups")
		SendSign(Alive)
		for range c {
			_, _ = file.WriteString("x")
		}
	case "fails later": // its second process cannot run
		if _, err := os.Stat(os.Args[1]); err == nil {
			os.Exit(78)
		}
		touch(os.Args[1])
		os.Exit(3)
	case "file": // writes to the file it inherited
		_, _ = os.NewFile(uintptr(FileFD(0)), "inherited").WriteString("hello")
		touch(os.Args[1])
		time.Sleep(time.Minute)
	}
}

func touch(file string) { _ = os.WriteFile(file, nil, 0o600) }

// start runs a child until it has begun, and returns the file that says so.
func start(t *testing.T, c *Child, stop, kill context.Context) (began string, result <-chan error) {
	t.Helper()
	began = filepath.Join(t.TempDir(), "began")
	c.Args = []string{began}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(stop, kill) }()
	waitFile(t, began)
	return began, ended
}

func waitFile(t *testing.T, file string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the child did not begin")
		}
	}
}

func child(behaviour string) *Child {
	return &Child{
		Name: "child", Env: append(os.Environ(), beChild+"="+behaviour), Grace: 10 * time.Second,
		Permanent: func(code int, _ bool) bool { return code == 78 }, Log: zap.NewNop(),
	}
}

func TestStop(t *testing.T) {
	stop, cancel := context.WithCancel(context.Background())
	_, ended := start(t, child("polite"), stop, context.Background())
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestDeafChildIsKilled(t *testing.T) {
	for _, how := range []string{"grace", "kill"} {
		stop, cancel := context.WithCancel(context.Background())
		kill, killIt := context.WithCancel(context.Background())
		c := child("deaf")
		if how == "grace" {
			c.Grace = 50 * time.Millisecond
		}
		_, ended := start(t, c, stop, kill)
		cancel()
		if how == "kill" {
			killIt()
		}
		var exit *ExitError
		if err := <-ended; !errors.As(err, &exit) || !strings.Contains(err.Error(), "killed") {
			t.Errorf("%s: Run = %v, want an ExitError that says killed", how, err)
		}
		killIt()
	}
}

func TestKilledChildIsStartedAgain(t *testing.T) {
	stop, cancel := context.WithCancel(context.Background())
	var pid, starts atomic.Int32
	c := child("polite")
	c.Started = func(id int) { pid.Store(int32(id)); starts.Add(1) }
	began, ended := start(t, c, stop, context.Background())
	for want := int32(2); want <= 3; want++ {
		if err := os.Remove(began); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		if err := syscall.Kill(int(pid.Load()), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitFile(t, began)
		if starts.Load() != want {
			t.Errorf("%d starts, want %d", starts.Load(), want)
		}
		if took := time.Since(killed); took < firstDelay {
			t.Errorf("started again after %v, sooner than %v", took, firstDelay)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestPermanentCodeEndsRun(t *testing.T) {
	err := child("exit 78").Run(context.Background(), context.Background())
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 78 || exit.Name != "child" || !exit.First {
		t.Errorf("Run = %v, want an ExitError with code 78", err)
	}
}

// TestStopWhileWaiting: a child that is dead when stop comes is not started again.
func TestStopWhileWaiting(t *testing.T) {
	stop, cancel := context.WithCancel(context.Background())
	c := child("exit 3")
	starts := 0
	c.Started = func(int) {
		if starts++; starts == 3 {
			cancel()
		}
	}
	err := c.Run(stop, context.Background())
	var exit *ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Code != 3) || starts != 3 {
		t.Errorf("Run = %v after %d starts, want nil or code 3 after 3", err, starts)
	}
}

// TestKilledIsNotStartedAgain: when all is to end at once, there may be no stop before.
func TestKilledIsNotStartedAgain(t *testing.T) {
	kill, cancel := context.WithCancel(context.Background())
	c := child("deaf")
	starts := 0
	c.Started = func(int) { starts++ }
	_, ended := start(t, c, context.Background(), kill)
	cancel()
	var exit *ExitError
	if err := <-ended; !errors.As(err, &exit) || starts != 1 {
		t.Errorf("Run = %v after %d starts, want an ExitError after one", err, starts)
	}
}

func TestFilesAreInherited(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stop, cancel := context.WithCancel(context.Background())
	c := child("file")
	c.Files = []*os.File{file}
	_, ended := start(t, c, stop, context.Background())
	cancel()
	<-ended
	if text, err := os.ReadFile(file.Name()); err != nil || string(text) != "hello" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}
