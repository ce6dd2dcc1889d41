// Command camera is the camera's side of video streams: it streams to a server, and encodes, by libx264. That library is licensed under the GPL, so
// this is a program of its own, which the server talks to and is not linked with.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/internal/version"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
)

// The exit codes are those of sysexits.h, as prefillonly has them.
const (
	exitFailure = 1
	exitUsage   = 64
)

func main() {
	root, started := newRootCommand(), false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	command, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return
	}
	var usage *usageError
	if !started || errors.As(err, &usage) {
		fmt.Fprintf(os.Stderr, "camera: %v\n`%s --help` tells how it is used\n", err, command.CommandPath())
		os.Exit(exitUsage)
	}
	fmt.Fprintln(os.Stderr, "camera:", err)
	os.Exit(exitFailure)
}

// usageError is about the command line.
type usageError struct{ error }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "camera",
		Short: "The camera's side of video streams",
		Long: `camera is where frames are: ` + "`camera run`" + ` streams a file or a camera to a server. It also encodes video for prefillonly, at a quantiser
for each macroblock if need be, which starts it by itself where it finds it beside its own program or in PATH.

It links libx264, which is licensed under the GPL; ` + "`camera version`" + ` says what that means for this program.`,
		Example: `  camera run --server http://localhost:8000 --stream door --source dashcam.mp4 --loop
  camera version
  camera encode --threads 2 < requests > answers`,
		Args:          cobra.NoArgs,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newRunCommand(), newEncodeCommand(), newVersionCommand())
	return root
}

func newEncodeCommand() *cobra.Command {
	threads := 1
	command := &cobra.Command{
		Use:   "encode",
		Short: "Encode for the program that started this one",
		Long: `Encodes frames, or parts of files and cameras, as messages on standard input ask for it, and answers on standard output
until the input ends. Programs speak this protocol by Go's package videoext/media/pipe.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if threads < 1 || threads > maxThreads {
				return &usageError{fmt.Errorf("--threads %d is not 1 to %d", threads, maxThreads)}
			}
			if term.IsTerminal(int(os.Stdin.Fd())) {
				return &usageError{errors.New("the input is a terminal, and encode is for programs")}
			}
			return pipe.Serve(command.Context(), os.Stdin, os.Stdout, x264.Encoder{Threads: threads})
		},
	}
	command.Flags().IntVar(&threads, "threads", threads, "threads to encode with")
	return command
}

// maxThreads is what x264 takes.
const maxThreads = 128

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the licence",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			reads := "it reads video by FFmpeg's libraries"
			if err := ffmpeg.Available(); err != nil {
				reads = "it cannot read video: " + err.Error()
			}
			_, err := fmt.Fprintf(command.OutOrStdout(), `%s
linked with %s; %s
The source of camera is under the Apache License 2.0. libx264 is under the GNU General Public License, version 2 or
later, and so this program as a whole may be passed on under that licence, version 3 or later, with which the Apache
License agrees.
`, version.Line("camera"), x264.Library(), reads)
			return err
		},
	}
}
