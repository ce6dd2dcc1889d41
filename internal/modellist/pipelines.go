package modellist

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// expandPipelines puts behind each pipeline the models of its networks beside the first, which is the pipeline's own. What a pipeline
// lacks is in incomplete, at its position. A list that was expanded stays as it is.
func expandPipelines(list []config.Model) (all []config.Model, incomplete []error) {
	for _, m := range list {
		if m.Pipeline == "" {
			all, incomplete = append(all, m), append(incomplete, nil)
			continue
		}
		parts, err := partsOf(&m)
		all, incomplete = append(all, m), append(incomplete, err)
		for _, part := range parts {
			if !slices.ContainsFunc(list, func(other config.Model) bool { return slices.Equal(other.Names, part.Names) && other.Path == part.Path }) {
				all, incomplete = append(all, part), append(incomplete, nil)
			}
		}
	}
	return all, incomplete
}

// partsOf makes m the model of its first network, with the files of all, and returns those of the others.
func partsOf(m *config.Model) (parts []config.Model, err error) {
	dir, err := filepath.Abs(m.Path)
	if err != nil {
		return nil, err
	}
	if len(m.Names) == 0 {
		m.Names = []string{strings.TrimSuffix(filepath.Base(dir), dnn.Extension)}
	}
	only := ""
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("model %s: pipeline %s: want a folder with its networks: %w", m.Names[0], m.Pipeline, err)
	case !info.IsDir():
		only, dir = dir, filepath.Dir(dir)
	}
	below(dir, &m.Alphabet)
	memory := m.WorkMemory
	m.Task, m.Path = config.TaskInfer, dir
	for i, part := range config.Pipelines[m.Pipeline] {
		file := part.File(&m.Networks)
		if *file == "" && i == 0 {
			*file = only
		}
		if *file == "" && !part.Named {
			if *file, err = findNetwork(dir, &part); err != nil {
				return nil, fmt.Errorf("model %s: pipeline %s: %w", m.Names[0], m.Pipeline, err)
			}
		}
		below(dir, file)
		switch {
		case i == 0:
			m.Path, m.Decoder, m.WorkMemory = *file, part.Decoder, cmp.Or(m.WorkMemory, part.Memory)
		case *file != "":
			parts = append(parts, config.Model{
				Names: []string{config.NetworkName(m.Names[0], i, part)}, Path: *file, Task: config.TaskInfer, Decoder: part.Decoder,
				Devices: m.Devices, Keep: m.Keep, WorkMemory: cmp.Or(memory, part.Memory), MaxModelLen: m.MaxModelLen,
			})
		}
	}
	return parts, nil
}

// below makes a file's path one below dir, unless it is empty or absolute.
func below(dir string, file *string) {
	if *file != "" && !filepath.IsAbs(*file) {
		*file = filepath.Join(dir, *file)
	}
}

// findNetwork is the file of a network in dir; empty where it may be missing, and is.
func findNetwork(dir string, part *config.Part) (string, error) {
	files, _ := filepath.Glob(filepath.Join(dir, "*"+dnn.Extension))
	files = slices.DeleteFunc(files, func(file string) bool { return !part.Has(file) })
	switch {
	case len(files) == 1:
		return files[0], nil
	case len(files) == 0 && part.Optional:
		return "", nil
	}
	what := "network"
	if part.Word != "" {
		what = fmt.Sprintf("network with %q in its name", part.Word)
	}
	return "", fmt.Errorf("%s has %d files of a %s, want one: set networks: {%s: FILE}", dir, len(files), what, part.Key)
}

// checkSteps refuses to find the best symbols of what is no network, or none of steps.
func checkSteps(m *config.Model) error {
	file, ok := dnn.File(m.Path)
	if m.Task != config.TaskInfer || !ok {
		return fmt.Errorf("model %s: decoder %s reads outputs of a network (ONNX), but the model is a checkpoint of text", m.Names[0], m.Decoder)
	}
	n, err := inspect.OpenNetwork(file)
	if err != nil || n.Refused != "" {
		return err // an executor says why it is refused
	}
	if len(n.Outputs) == 0 || len(n.Outputs[0].Shape) != 3 {
		return fmt.Errorf("model %s: decoder %s reads a first output of three dimensions: a batch, steps and symbols", m.Names[0], m.Decoder)
	}
	return nil
}

// maxAlphabet is how long the file of an alphabet may be.
const maxAlphabet = 4 << 20

// checkAlphabet refuses a pipeline whose alphabet or settings cannot be read.
func checkAlphabet(m *config.Model) error {
	if m.Pipeline == "" {
		return nil
	}
	if _, err := Alphabet(m); err != nil {
		return fmt.Errorf("model %s: pipeline %s: %w", m.Names[0], m.Pipeline, err)
	}
	if m.Pipeline == config.PipelineSpeech {
		if _, err := SoundSettings(m); err != nil {
			return fmt.Errorf("model %s: pipeline %s: %w", m.Names[0], m.Pipeline, err)
		}
	}
	return nil
}

// metadataAlphabet is the key under which networks of PP-OCR keep their alphabets.
const metadataAlphabet = "character"

// Alphabet are the symbols that a pipeline's network recognizes, as its file or the network's metadata lists them.
func Alphabet(m *config.Model) ([]string, error) {
	if file := alphabetFile(m); file != "" {
		text, err := regular.ReadFile(file, maxAlphabet)
		if err != nil {
			return nil, fmt.Errorf("alphabet: %w", err)
		}
		if filepath.Ext(file) == ".json" {
			return vocabulary(file, text)
		}
		return alphabetLines(file, text)
	}
	n, err := onnx.Open(m.Networks.Recognize)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	text, ok := n.Metadata[metadataAlphabet]
	if !ok {
		return nil, fmt.Errorf("%s does not name its symbols (no %q in its metadata): set alphabet to a file of them, one a line", m.Networks.Recognize, metadataAlphabet)
	}
	return alphabetLines(m.Networks.Recognize, []byte(text))
}

// alphabetFile is the file that lists the symbols of a pipeline's network: that of the configuration, or one of usual names beside the network.
func alphabetFile(m *config.Model) string {
	if m.Alphabet != "" {
		return m.Alphabet
	}
	for _, name := range []string{"vocab.json", "alphabet.txt"} {
		file := filepath.Join(filepath.Dir(m.Networks.Recognize), name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

func alphabetLines(file string, text []byte) (symbols []string, err error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("alphabet of %s: want UTF-8", file)
	}
	for line := range bytes.Lines(text) {
		symbols = append(symbols, strings.TrimRight(string(line), "\r\n"))
	}
	if len(symbols) == 0 {
		return nil, fmt.Errorf("alphabet of %s: want a symbol a line, got none", file)
	}
	return symbols, nil
}
