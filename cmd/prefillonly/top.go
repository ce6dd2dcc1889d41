package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/internal/cli"
)

const (
	topServer  = "http://localhost:8000" // where nothing else is said
	topTimeout = 5 * time.Second
	topBytes   = 4 << 20 // of an answer; a thousand models have 0.1 MB
)

// topOptions are the flags of `prefillonly top`.
type topOptions struct {
	keyFile  string
	interval time.Duration
	once     bool
}

// newTopCommand makes `prefillonly top`, which shows the figures of a server's page as text.
func newTopCommand() *cobra.Command {
	o := topOptions{interval: 2 * time.Second}
	command := &cobra.Command{
		Use:   "top [URL]",
		Short: "Watch a server on the terminal: queue, passes, prefix cache, devices, latencies",
		Long: `Shows the figures of a server's page /ui, at http://localhost:8000 if nothing else is said, and does so again every two seconds: requests,
jobs, latencies, tokens, and for each model its queue, its prefix cache and its weights; running passes and GPUs too. Rates and percentiles
are of the last ten seconds, or since the server was first looked at.

Ctrl-C ends it. The API key of the server is read from --api-key-file, or from PREFILLONLY_API_KEY. With --once, or where the output is no
terminal, it prints two seconds once.`,
		Example: `  prefillonly top
  prefillonly top http://gpu7:8000 --api-key-file key
  prefillonly top --once`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return o.watchServer(command.OutOrStdout(), append(args, topServer)[0])
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.keyFile, "api-key-file", "", "`FILE` whose first line is the API key")
	flags.DurationVar(&o.interval, "interval", o.interval, "time between two readings")
	flags.BoolVar(&o.once, "once", false, "print the figures of one --interval as text, and end")
	cli.CompleteFlag(command, "api-key-file", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	cli.CompleteFlag(command, "interval", cobra.NoFileCompletions)
	command.ValidArgsFunction = cobra.NoFileCompletions
	return command
}

// watchServer shows the figures until a signal ends the program: it leaves no state on the terminal that would have to be put back.
func (o *topOptions) watchServer(out io.Writer, address string) error {
	if o.interval < 100*time.Millisecond || o.interval > time.Hour {
		return cli.UsageError("invalid --interval %v: want 100ms to 1h", o.interval)
	}
	server, err := openRemote(address, o.keyFile, topTimeout)
	if err != nil {
		return err
	}
	text, err := server.readFigures()
	if o.once || out != os.Stdout || !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("TERM") == "dumb" {
		if err == nil {
			time.Sleep(o.interval) // rates are of the time between two readings
			text, err = server.readFigures()
		}
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	}
	for {
		if err != nil {
			text = err.Error()
		}
		if _, err := io.WriteString(out, drawScreen(server.base+"\n"+text)); err != nil {
			return err
		}
		time.Sleep(o.interval)
		text, err = server.readFigures()
	}
}

// readFigures is the text of a server's figures. What it answers cannot steer a terminal.
func (r *remote) readFigures() (string, error) {
	body, err := r.get(context.Background(), "/ui/now.txt", topBytes)
	return cleanText(string(body)), err
}

// cleanText is a text of others without what would move a terminal's cursor or set its state.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// drawScreen is a text over what was on the screen, cut to its size: 80 by 24 where the terminal does not tell.
func drawScreen(text string) string {
	columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		columns, rows = 80, 24
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if cells := []rune(line); len(cells) > columns {
			lines[i] = string(cells[:columns])
		}
	}
	return "\x1b[H" + strings.Join(lines[:min(len(lines), rows)], "\x1b[K\r\n") + "\x1b[K\x1b[J"
}
