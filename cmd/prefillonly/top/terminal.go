package top

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The alternate screen leaves what was on the terminal as it was.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// writeTimeout is what a terminal may take to accept a screen: one that was stopped by Ctrl-S accepts none.
const writeTimeout = time.Second

// terminal is the one that the program was started on. It is opened anew, so that it can be without blocking for this
// process alone.
type terminal struct {
	file  *os.File
	saved *unix.Termios // as it was before enter; nil outside
}

func openTerminal() (*terminal, error) {
	const flags = os.O_RDWR | unix.O_NONBLOCK | unix.O_NOCTTY
	file, err := os.OpenFile("/dev/tty", flags, 0)
	if err != nil {
		file, err = os.OpenFile("/proc/self/fd/1", flags, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be opened: %w; --once needs none", err)
	}
	return &terminal{file: file}, nil
}

// controlDescriptor runs a call on the descriptor, which stays without blocking.
func (t *terminal) controlDescriptor(call func(fd int) error) error {
	raw, err := t.file.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = call(int(fd)) })
	if failed != nil {
		return failed
	}
	return err
}

// enter shows the alternate screen, and has keys told at once and without an echo. Signals of keys stay.
func (t *terminal) enter() error {
	err := t.controlDescriptor(func(fd int) error {
		mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		if t.saved == nil {
			saved := *mode
			t.saved = &saved
		}
		mode.Lflag &^= unix.ICANON | unix.ECHO
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, unix.TCSETS, mode)
	})
	if err != nil {
		return fmt.Errorf("the terminal's mode: %w", err)
	}
	return t.writeText(enterScreen)
}

// leave puts everything back as it was, as far as the terminal lets it.
func (t *terminal) leave() {
	if t.saved == nil {
		return
	}
	_ = t.writeText(leaveScreen)
	_ = t.controlDescriptor(func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, t.saved) })
	t.saved = nil
}

// writeText fails when the terminal has not taken all in time; what is half there the next screen overwrites.
func (t *terminal) writeText(text string) error {
	if err := t.file.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := t.file.WriteString(text)
	return err
}

// size is that of the screen; 80 by 24 where the terminal does not tell.
func (t *terminal) size() (columns, rows int) {
	columns, rows = 80, 24
	_ = t.controlDescriptor(func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil && size.Col > 0 && size.Row > 0 {
			columns, rows = int(size.Col), int(size.Row)
		}
		return err
	})
	return columns, rows
}

// showLines draws lines over what was there.
func (t *terminal) showLines(lines []line, colour bool) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(l.formatSpans(colour) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return t.writeText(b.String())
}
