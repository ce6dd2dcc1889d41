package collectenv

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/version"
)

// New makes `prefillonly collect-env`.
func New() *cobra.Command {
	command := &cobra.Command{
		Use:   "collect-env",
		Short: "Print what a bug report should contain: versions, machine, limits, settings, without secrets",
		Long: `Prints versions, processor, memory, limits, GPUs, libraries, settings and variables of the environment, for a bug report.
Values of keys, tokens and passwords are not shown, nor those in addresses. What cannot be found out says so; the rest is told.

With the --config file and the flags of serve it tells the settings as the server would read them.`,
		Example: `  prefillonly collect-env > env.txt
  prefillonly collect-env --json --config /etc/prefillonly/prefillonly.yaml`,
		Args: cobra.NoArgs,
	}
	asJSON := command.Flags().Bool("json", false, "print a JSON object")
	settings.AddTo(command, config.Serve)
	command.RunE = func(command *cobra.Command, args []string) error {
		sections := runProbes(probes(func() (*config.Loaded, error) { return settings.Load(command, args) }), probeLimit)
		out := command.OutOrStdout()
		if *asJSON {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(map[string]any{"collected": time.Now().UTC().Format(time.RFC3339), "sections": sections})
		}
		_, err := io.WriteString(out, formatSections(sections))
		return err
	}
	return command
}

// probes are all of them, in the order of the report.
func probes(load func() (*config.Loaded, error)) []probe {
	m := machine{"/"}
	return []probe{
		{"Program", collectProgram},
		{"System", m.system},
		{"Processor", m.processor},
		{"Memory", m.memory},
		{"Limits", m.limits},
		{"GPUs", collectGPUs},
		{"Libraries on this machine", m.libraries},
		{"Settings that are not defaults", func(f *found) { collectParameters(f, load) }},
		{"Environment", func(f *found) { collectEnvironment(f, os.Environ()) }},
	}
}

// modules of others that matter to a report.
var modules = []string{"github.com/daulet/tokenizers", "github.com/pebbe/zmq4", "github.com/NVIDIA/go-nvml"}

func collectProgram(f *found) {
	f.addItem("prefillonly", version.Release, nil)
	f.addItem("protocol", fmt.Sprintf("version %d between processes", wire.Version), nil)
	f.addItem("Go", runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH, nil)
	path, err := os.Executable()
	f.addItem("file", path, err)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" || s.Key == "vcs.modified" || s.Key == "-tags" {
				f.addItem(s.Key, s.Value, nil)
			}
		}
		for _, d := range info.Deps {
			if slices.Contains(modules, d.Path) {
				f.addItem(d.Path, d.Version, nil)
			}
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	f.addItem("linked", strings.Join(linkedLibraries(string(maps)), " "), err)
}

// linkedLibraries are the libraries in a process's map of memory.
func linkedLibraries(maps string) (files []string) {
	for line := range strings.Lines(maps) {
		if columns := strings.Fields(line); len(columns) >= 6 && strings.Contains(columns[5], ".so") && !slices.Contains(files, columns[5]) {
			files = append(files, columns[5])
		}
	}
	return files
}

// collectParameters tells the parameters that somebody has set, and where. Secrets have no values here.
func collectParameters(f *found, load func() (*config.Loaded, error)) {
	l, err := load()
	if err != nil {
		f.addItem("configuration", "", err)
		return
	}
	var lines []string
	for line := range strings.Lines(l.YAML()) {
		if line = strings.TrimRight(line, "\n"); !strings.HasSuffix(line, "# default") && !isGroup(line) {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		lines = []string{"none"}
	}
	f.addItem("settings", strings.Join(lines, "\n"), nil)
}

// isGroup says whether a line of the settings is the name of a group of them.
func isGroup(line string) bool {
	return slices.ContainsFunc(config.Groups, func(g config.Group) bool { return line == "# "+string(g) })
}

// variables of these beginnings matter to how the program runs.
var variables = []string{"PREFILLONLY_", "CUDA_", "NVIDIA_", "NCCL_", "CUDNN_", "LD_LIBRARY_PATH=", "LD_PRELOAD=", "HF_", "OTEL_", "GOMAXPROCS=", "GOMEMLIMIT=", "GOGC=", "GODEBUG=", "GOTRACEBACK=",
	"OMP_NUM_THREADS=", "MALLOC_", "HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=", "http_proxy=", "https_proxy=", "no_proxy=", "LANG=", "LC_ALL=", "TMPDIR=", "XDG_CACHE_HOME=", "CACHE_DIRECTORY="}

func collectEnvironment(f *found, environ []string) {
	environ = slices.Clone(environ)
	slices.Sort(environ)
	for _, pair := range environ {
		if slices.ContainsFunc(variables, func(begin string) bool { return strings.HasPrefix(pair, begin) }) {
			name, value, _ := strings.Cut(pair, "=")
			f.addItem(name, shownVariable(name, value), nil)
		}
	}
}
