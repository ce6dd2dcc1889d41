package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// ignored are vLLM flags that mean nothing here; they are accepted with a warning.
var ignored = map[string]string{
	"max-num-seqs":           "jobs are packed by predicted gain, bounded by --max-pass-items",
	"enforce-eager":          "there are no captured graphs",
	"max-num-batched-tokens": "passes run layer by layer in chunks of --prefill-chunk rows",
	"enable-chunked-prefill": "prompts always go through in chunks, layer by layer",
	"trust-remote-code":      "checkpoints are data; no code of theirs is run",
	"dtype":                  "the checkpoint's own type is used",
}

// refused are flags that a user may expect, with what to do instead.
var refused = map[string]string{
	"api-key":      "an argument is visible to every user of this machine: use --api-key-file, $" + envPrefix + "API_KEY, or api-key in the YAML file",
	"quantization": "checkpoints in bfloat16, float16 and float32 are supported",
	"tokenizer":    "the tokenizer is read from the checkpoint's directory",
}

// FlagError is a flag that is known and refused.
type FlagError struct{ flag, hint string }

func (e *FlagError) Error() string { return e.flag + " is not supported: " + e.hint }

// text is a flag's value on its way; it is parsed by Load, so that every source has one parser.
type text struct {
	value string
	kind  string
}

func (t *text) String() string     { return t.value }
func (t *text) Set(v string) error { t.value = v; return nil }
func (t *text) Type() string       { return t.kind }

// Flags registers the flags of the parameters that the roles read, and --config.
func Flags(flags *pflag.FlagSet, roles Role) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	flags.String("config", "", "YAML `FILE` of parameters; keys are the names of the flags")
	for i := range Params {
		p := &Params[i]
		if p.Roles&roles == 0 || p.Secret {
			continue
		}
		f := flags.VarPF(&text{value: p.Default(), kind: p.Value}, p.Name, "", p.Help)
		if p.Value == "" {
			f.NoOptDefVal = "true"
			flags.VarPF(&text{value: "false"}, "no-"+p.Name, "", "").NoOptDefVal = "true"
			flags.Lookup("no-" + p.Name).Hidden = true
		}
	}
	for name := range ignored {
		hideFlag(flags, name)
	}
	for name := range refused {
		hideFlag(flags, name)
	}
}

// hideFlag registers a flag that takes a value or none and is not in the help.
func hideFlag(flags *pflag.FlagSet, name string) {
	if flags.Lookup(name) == nil {
		f := flags.VarPF(&text{}, name, "", "")
		f.Hidden = true
		if name == "enforce-eager" || strings.HasPrefix(name, "enable-") || strings.HasPrefix(name, "trust-") {
			f.NoOptDefVal = "true"
		}
	}
}

func (l *Loaded) loadFlags(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		if err == nil {
			err = l.loadFlag(f)
		}
	})
	return err
}

func (l *Loaded) loadFlag(f *pflag.Flag) error {
	origin := "--" + f.Name
	if hint, ok := refused[f.Name]; ok {
		return &FlagError{origin, hint}
	}
	if hint, ok := ignored[f.Name]; ok {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s is ignored: %s", origin, hint))
		return nil
	}
	if p := Find(f.Name); p != nil {
		return l.setParam(p, f.Value.String(), origin)
	}
	if positive, ok := strings.CutPrefix(f.Name, "no-"); ok {
		if p := Find(positive); p != nil && f.Value.String() == "true" {
			return l.setParam(p, "false", origin)
		}
	}
	return nil // a flag of the command itself
}

// UnknownFlag explains pflag's error about a flag that does not exist; other errors pass through.
func UnknownFlag(err error, flags *pflag.FlagSet) error {
	var missing *pflag.NotExistError
	if err == nil || !errors.As(err, &missing) {
		return err
	}
	var all []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f.Name)
		}
	})
	return fmt.Errorf("unknown flag --%s; the nearest is --%s", missing.GetSpecifiedName(), nearestWord(missing.GetSpecifiedName(), all))
}
