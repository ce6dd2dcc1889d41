package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// File is one of a repository's files, as the hub lists it.
type File struct {
	Path   string
	Size   int64
	Digest string // SHA-256 of large files, else git's SHA-1 of a blob; also the blob's name in the cache
}

// The files that say what the others are.
const (
	configFile  = "config.json"
	singleFile  = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
	modulesFile = "modules.json"
)

// smallFiles are what a model may have beside its weights, in the order in which they appear in a snapshot.
var smallFiles = []string{
	"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
	"vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
	"chat_template.jinja", "chat_template.json", modulesFile, "config_sentence_transformers.json", "sentence_bert_config.json",
	indexFile, configFile,
}

// maxSmall bounds the bytes of files that are read to learn what else is needed, and maxFiles how many are fetched.
const (
	maxSmall = 64 << 20
	maxFiles = 10_000
	maxSize  = 1 << 48 // of one file: the sum of all is no overflow
)

// listing are the files of a repository at a commit, by their paths.
type listing map[string]File

// checkFiles refuses a repository that is no checkpoint in safetensors.
func (l listing) checkFiles(withWeights bool) error {
	what, how := weights.Foreign(slices.Collect(maps.Keys(l)))
	if what != "" && (withWeights || !l.hasFile(configFile)) {
		return fmt.Errorf("the repository holds %s: %s", what, how)
	}
	if !l.hasFile(configFile) {
		return errors.New("the repository has no " + configFile + ": want a checkpoint")
	}
	if l.hasFile(singleFile) || l.hasFile(indexFile) || !withWeights {
		return nil
	}
	return fmt.Errorf("the repository has neither %s nor %s: choose one with safetensors", singleFile, indexFile)
}

// firstFiles are the small files there are: they say what else is needed.
func (l listing) firstFiles() ([]File, error) {
	var files []File
	for _, name := range smallFiles {
		f, ok := l[name]
		if !ok || name == indexFile && l.hasFile(singleFile) {
			continue
		}
		if f.Size > maxSmall {
			return nil, fmt.Errorf("%s has %d bytes, want at most %d", name, f.Size, maxSmall)
		}
		files = append(files, f)
	}
	return files, nil
}

func (l listing) hasFile(name string) bool {
	_, ok := l[name]
	return ok
}

// remainingFiles are the files that come after the first ones: those of modules, and the weights. read returns the content of one of the
// first.
func (l listing) remainingFiles(read func(name string) ([]byte, error), weights bool) (files []File, err error) {
	modules, err := l.listModuleFiles(read)
	if err != nil {
		return nil, err
	}
	for _, name := range modules {
		if f, ok := l[name]; ok {
			files = append(files, f)
		}
	}
	if !weights {
		return files, nil
	}
	names, err := shardFiles(l.hasFile(singleFile), read)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, ok := l[name]
		if !ok {
			return nil, fmt.Errorf("%s names %.100q, which is not in the repository", indexFile, name)
		}
		files = append(files, f)
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("got %d files, want at most %d: not a repository of one model", len(files), maxFiles)
	}
	return files, nil
}

// listModuleFiles are the names of the modules' files, where the repository has modules.
func (l listing) listModuleFiles(read func(string) ([]byte, error)) ([]string, error) {
	if !l.hasFile(modulesFile) {
		return nil, nil
	}
	text, err := read(modulesFile)
	if err != nil {
		return nil, err
	}
	return moduleFiles(text)
}

// moduleFiles are the files that the modules of a sentence-transformers model may have in folders of their own.
func moduleFiles(modules []byte) (names []string, err error) {
	var list []struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal(modules, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", modulesFile, err)
	}
	if len(list) > 100 {
		return nil, fmt.Errorf("%s lists %d modules, want at most 100", modulesFile, len(list))
	}
	for _, m := range list {
		dir := strings.TrimSuffix(m.Path, "/")
		if dir == "" {
			continue // the model itself, in the root
		}
		if !isLocal(dir) {
			return nil, fmt.Errorf("%s names folder %.100q, which is outside the repository", modulesFile, m.Path)
		}
		names = append(names, dir+"/"+configFile, dir+"/"+singleFile)
	}
	return names, nil
}

// shardFiles are the names of the files of weights, by the index unless there is a single one.
func shardFiles(single bool, read func(string) ([]byte, error)) ([]string, error) {
	if single {
		return []string{singleFile}, nil
	}
	text, err := read(indexFile)
	if err != nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: missing or empty weight_map", indexFile)
	}
	names := slices.Compact(slices.Sorted(maps.Values(index.WeightMap)))
	for _, name := range names {
		if !isLocal(name) || strings.Contains(name, "/") || !strings.HasSuffix(name, ".safetensors") {
			return nil, fmt.Errorf("%s names %.100q, want a safetensors file of the repository", indexFile, name)
		}
	}
	return names, nil
}

// checkValid refuses a file whose place in the cache is not certain. Only files that are needed are held to it.
func (f File) checkValid() error {
	switch {
	case !isLocal(f.Path):
		return fmt.Errorf("the hub lists file %.100q, which is outside the repository", f.Path)
	case !isCommit.MatchString(f.Digest) && !isSHA256.MatchString(f.Digest):
		return fmt.Errorf("the hub lists no checksum of %s (SHA-256 or git's SHA-1), which is required: try another HF_ENDPOINT", f.Path)
	case f.Size < 0 || f.Size > maxSize:
		return fmt.Errorf("the hub lists invalid size %[2]d of %[1]s", f.Path, f.Size)
	}
	return nil
}
