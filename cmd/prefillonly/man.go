package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/version"
)

// newManCommand makes `prefillonly man`.
func newManCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "man [PAGE]",
		Short: "Print a manual page, or write all of them",
		Long: `Prints the manual page of prefillonly, of a command (serve) or of the configuration's file (prefillonly.yaml);
with --dir it writes all of them into a directory.`,
		Example: "  prefillonly man | man -l -\n  prefillonly man serve | man -l -\n  prefillonly man --dir /usr/local/share/man/man1",
		Args:    cobra.MaximumNArgs(1),
	}
	dir := command.Flags().String("dir", "", "write every page into this `DIRECTORY`")
	cli.CompleteFlag(command, "dir", cli.Directories)
	command.RunE = func(command *cobra.Command, args []string) error {
		pages := cli.Manual(command.Root(), version.Release, exitCodes)
		if *dir != "" && len(args) == 0 {
			return writePages(*dir, pages)
		}
		page, ok := findPage(pages, args)
		if !ok || *dir != "" {
			return cli.UsageError("man: want one of %s, or --dir alone", strings.Join(pageNames(pages), ", "))
		}
		_, err := io.WriteString(command.OutOrStdout(), page.Text)
		return err
	}
	command.ValidArgsFunction = func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return pageNames(cli.Manual(command.Root(), version.Release, exitCodes)), cobra.ShellCompDirectiveNoFileComp
	}
	return command
}

// shortName is what a page is called on the command line.
func shortName(p cli.Page) string {
	name := strings.TrimSuffix(p.File, filepath.Ext(p.File))
	return strings.TrimPrefix(name, "prefillonly-")
}

func pageNames(pages []cli.Page) (names []string) {
	for _, p := range pages {
		names = append(names, shortName(p))
	}
	return names
}

// findPage is the page of a name, or the first.
func findPage(pages []cli.Page, args []string) (cli.Page, bool) {
	for _, p := range pages {
		if len(args) == 0 || args[0] == shortName(p) {
			return p, true
		}
	}
	return cli.Page{}, false
}

func writePages(dir string, pages []cli.Page) error {
	for _, p := range pages {
		write := func(file *os.File) error {
			_, err := io.WriteString(file, p.Text)
			return err
		}
		if err := cli.WriteFile(filepath.Join(dir, p.File), write); err != nil {
			return err
		}
	}
	return nil
}
