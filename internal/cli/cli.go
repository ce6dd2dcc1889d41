// Package cli is what the program's subcommands have in common: exit codes, errors of usage, groups, how files and tables are
// written, and what they say of themselves by the table of parameters: help, the manual page and the shell's completion.
package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/config"
)

// The exit codes are those of sysexits.h. None of them is a code that Go's runtime gives (2), so that only a
// process that meant it ends with one.
const (
	ExitFailure = 1
	ExitUsage   = 64
	ExitDevice  = 69
	ExitMemory  = 71
	ExitLost    = 75
	ExitConfig  = 78
)

// Error is an error with the exit code that it means.
type Error struct {
	Code int
	err  error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Exit is err with an exit code.
func Exit(code int, err error) error { return &Error{code, err} }

// UsageError is about the command line.
func UsageError(format string, args ...any) error {
	return Exit(ExitUsage, fmt.Errorf(format, args...))
}

// ConfigError is about parameters: of the command line where a flag is none, else of the configuration.
func ConfigError(err error) error {
	var flag *config.FlagError
	if errors.As(err, &flag) {
		return Exit(ExitUsage, err)
	}
	return Exit(ExitConfig, err)
}

// Group makes command one that only holds others: alone it helps, and a word that names none of them is an error.
func Group(command *cobra.Command, members ...*cobra.Command) *cobra.Command {
	command.Args = cobra.NoArgs
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	command.AddCommand(members...)
	return command
}

// WriteFile writes a file through write, and reports a failed close too.
func WriteFile(path string, write func(*os.File) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// Table writes rows of columns, which are divided by tabs.
func Table(w io.Writer, rows ...string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, row)
	}
	_ = columns.Flush() // a reader that has left wants nothing more
}

// CacheDir is systemd's cache directory of the service, or the user's.
func CacheDir() (string, error) {
	if dir := os.Getenv("CACHE_DIRECTORY"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "prefillonly"), err
}

// UnusedPort is a TCP port of this machine that nothing listens on now.
func UnusedPort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
