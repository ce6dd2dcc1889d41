package hub

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/hub/hubtest"
)

// checkpoint is a repository of a model in two shards, with a module of its own and much that is not needed.
func checkpoint() *hubtest.Repo {
	large := func(b byte) []byte { return bytes.Repeat([]byte{b, 1, 2, 3, 4}, 100_000) }
	return &hubtest.Repo{
		Files: map[string][]byte{
			"config.json": []byte(`{"architectures":["Qwen2ForCausalLM"]}`), "tokenizer.json": []byte(`{}`), "README.md": []byte("# read"),
			"modules.json":                     []byte(`[{"path":""},{"path":"1_Pooling"}]`),
			"1_Pooling/config.json":            []byte(`{"pooling_mode_cls_token":true}`),
			"model.safetensors.index.json":     []byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`),
			"model-00001-of-00002.safetensors": large('a'), "model-00002-of-00002.safetensors": large('b'), "consolidated.safetensors": large('c'),
			"pytorch_model.bin": []byte("pickle"), "original/consolidated.00.pth": []byte("pickle"), "model-Q4.gguf": []byte("gguf"), "onnx/model.onnx": []byte("onnx"),
			"vocab.txt": {},
		},
		Large:     []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "consolidated.safetensors", "pytorch_model.bin"},
		Revisions: []string{"v1", "refs/pr/1"},
	}
}

var needed = []string{
	"1_Pooling/config.json", "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
	"modules.json", "tokenizer.json", "vocab.txt",
}

// hubOf serves repositories, and says how a user with an empty cache finds them.
func hubOf(t *testing.T, repos map[string]*hubtest.Repo) (*hubtest.Server, Options) {
	t.Helper()
	server := hubtest.New(repos)
	t.Cleanup(server.Close)
	s := settings(t, map[string]string{"HF_ENDPOINT": server.Hub.URL, "HF_HOME": t.TempDir()})
	return server, Options{Settings: s}
}

func settings(t *testing.T, env map[string]string) Settings {
	t.Helper()
	s, err := FromEnvironment(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	s.pause = time.Millisecond
	return s
}

var model = Model{"org/m", "main"}

// files are those of a snapshot, which are links to blobs of their own directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		target, err := os.Readlink(path)
		if want := strings.Repeat("../", 2+strings.Count(name, "/")) + "blobs/"; err != nil || !strings.HasPrefix(target, want) {
			t.Errorf("%s leads to %q, %v; want below %s", name, target, err, want)
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDownload: what is needed comes, in huggingface_hub's layout; then nothing is asked again.
func TestDownload(t *testing.T) {
	for name, plain := range map[string]bool{"listed with checksums": false, "by the tree alone": true} {
		t.Run(name, func(t *testing.T) {
			repo := checkpoint()
			repo.Plain = plain
			server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": repo})
			var done, total int64
			o.Progress = func(d, n int64) { done, total = d, n }
			dir, err := Find(t.Context(), model, o)
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(o.Settings.Cache, "models--org--m", "snapshots", repo.Commit()); dir != want {
				t.Errorf("directory %s, want %s", dir, want)
			}
			if got := files(t, dir); !slices.Equal(got, needed) {
				t.Errorf("files %q, want %q", got, needed)
			}
			var sum int64
			for _, name := range needed {
				content, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || !bytes.Equal(content, repo.Files[name]) {
					t.Errorf("%s: %d bytes, %v", name, len(content), err)
				}
				sum += int64(len(content))
			}
			if done != sum || total != sum {
				t.Errorf("progress ends at %d of %d, want %d", done, total, sum)
			}
			if ref, err := os.ReadFile(filepath.Join(dir, "../../refs/main")); err != nil || string(ref) != repo.Commit() {
				t.Errorf("refs/main is %q, %v", ref, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "../../.no_exist", repo.Commit(), "chat_template.jinja")); err != nil {
				t.Error(err)
			}
			server.Requests()
			if again, err := Find(t.Context(), model, o); err != nil || again != dir {
				t.Errorf("again: %s, %v", again, err)
			}
			if list := server.Requests(); len(list) > 0 {
				t.Errorf("the second time asks %q", list)
			}
		})
	}
}

// TestRevisions: branches, commits and texts without weights; what is cached of one helps the other.
func TestRevisions(t *testing.T) {
	repo := checkpoint()
	server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": repo})
	texts := o
	texts.Texts = true
	dir, err := Find(t.Context(), Model{"org/m", "refs/pr/1"}, texts)
	if err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); slices.ContainsFunc(got, func(n string) bool { return strings.HasSuffix(n, ".safetensors") }) {
		t.Errorf("texts alone: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "../../refs/refs/pr/1")); err != nil {
		t.Error(err)
	}
	offline := o
	offline.Settings.Offline = true
	if _, err := Find(t.Context(), Model{"org/m", "refs/pr/1"}, offline); err == nil || !strings.Contains(err.Error(), "lacks model-00001-of-00002.safetensors") || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Errorf("offline, without weights: %v", err)
	}
	server.Requests()
	if again, err := Find(t.Context(), Model{"org/m", repo.Commit()}, o); err != nil || again != dir {
		t.Errorf("by the commit: %s, %v", again, err)
	}
	if got := files(t, dir); !slices.Equal(got, needed) {
		t.Errorf("by the commit: %q", got)
	}
	if list := server.Requests(); slices.ContainsFunc(list, func(r string) bool { return strings.HasSuffix(r, "tokenizer.json") }) {
		t.Errorf("asked again: %q", list)
	}
}

// breaking breaks a connection off after some bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left <= 0 {
		_, _ = b.ResponseWriter.Write(p[:len(p)+b.left])
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return b.ResponseWriter.Write(p)
}

// TestDownloadsFromBrokenServers: servers that break off, stall, ignore ranges or send too much; in the end all is right, or nothing is there.
func TestDownloadsFromBrokenServers(t *testing.T) {
	const shard = "/org/m/resolve/"
	content := checkpoint()
	breakOff := func(n int) func(http.ResponseWriter, *http.Request) bool {
		var mu sync.Mutex
		broken := 0
		return func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			broken++
			over := broken > n
			mu.Unlock()
			for _, name := range content.Large {
				if r.URL.Path == "/blobs/"+content.Digest(name) && !over {
					http.ServeContent(&breaking{w, 5000}, r, "", time.Time{}, bytes.NewReader(content.Files[name]))
				}
			}
			return false
		}
	}
	other := func(size string, content []byte) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/blobs/") {
				return false
			}
			if size != "" {
				w.Header().Set("Content-Length", size)
			} else {
				w.(http.Flusher).Flush()
			}
			_, _ = w.Write(content)
			return true
		}
	}
	status := func(path string, code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, path) {
				return false
			}
			w.WriteHeader(code)
			return true
		}
	}
	for name, c := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		want  string
	}{
		"broken off three times": {breakOff(9), ""},
		"no file comes":          {status(shard, 503), "status 503"},
		"a wrong checksum":       {other("500000", bytes.Repeat([]byte("x"), 500000)), "has checksum"},
		"fewer bytes promised":   {other("10", []byte("0123456789")), "sends 10 bytes, want 500000"},
		"more bytes than listed": {other("", bytes.Repeat([]byte("x"), 500001)), "sends more than 500000 bytes"},
		"no listing":             {status("/api/", 500), "status 500"},
		"a page of another kind": {func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("<html>log in")); return true }, "is not a hub"},
		"a stalling server": {func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/blobs/") {
				return false
			}
			w.Header().Set("Content-Length", "500000")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}, "stopped sending"},
		"an endless listing": {func(w http.ResponseWriter, _ *http.Request) bool {
			part := bytes.Repeat([]byte(" "), 1<<20)
			for range 40 {
				if _, err := w.Write(part); err != nil {
					break
				}
			}
			return true
		}, "more than 32 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": checkpoint()})
			if strings.Contains(name, "stall") {
				o.Settings.Stall = 50 * time.Millisecond
			}
			server.Fault(c.fault)
			dir, err := Find(t.Context(), model, o)
			if c.want == "" {
				if err != nil || !slices.Equal(files(t, dir), needed) {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if list, _ := filepath.Glob(filepath.Join(o.Settings.Cache, "*/snapshots/*")); len(list) > 0 {
				t.Errorf("a snapshot is there: %q", list)
			}
			server.Fault(nil)
			o.Settings.Stall = defaultTimeout
			if dir, err = Find(t.Context(), model, o); err != nil || !slices.Equal(files(t, dir), needed) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestResume: what an earlier process left is gone on with, whether it is right, wrong or too long, and whether the server
// knows ranges or not.
func TestResume(t *testing.T) {
	repo := checkpoint()
	const name = "model-00001-of-00002.safetensors"
	half := repo.Files[name][:250_000]
	for label, c := range map[string]struct {
		left    []byte
		ignores bool
		ranges  []string
	}{
		"half":                   {half, false, []string{"bytes=250000-"}},
		"half, of other content": {bytes.Repeat([]byte("x"), 250_000), false, []string{"bytes=250000-", ""}},
		"too much":               {append(half[:250_000:250_000], make([]byte, 300_000)...), false, []string{""}},
		"ranges are ignored":     {half, true, []string{"bytes=250000-"}},
		"all but its name":       {repo.Files[name], false, nil},
		"all, of other content":  {bytes.Repeat([]byte("x"), 500_000), false, []string{""}},
	} {
		t.Run(label, func(t *testing.T) {
			server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": repo})
			blobs := filepath.Join(o.Settings.modelCache(model).dir, "blobs")
			if err := errors.Join(os.MkdirAll(blobs, 0o755), os.WriteFile(filepath.Join(blobs, repo.Digest(name)+".incomplete"), c.left, 0o600)); err != nil {
				t.Fatal(err)
			}
			if c.ignores {
				server.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
					if strings.HasPrefix(r.URL.Path, "/blobs/") {
						r.Header.Del("Range")
					}
					return false
				})
			}
			dir, err := Find(t.Context(), model, o)
			if err != nil || !slices.Equal(files(t, dir), needed) {
				t.Fatal(err)
			}
			var ranges []string
			for _, line := range server.Requests() {
				if rest, ok := strings.CutPrefix(line, "GET /blobs/"+repo.Digest(name)); ok {
					ranges = append(ranges, strings.TrimSpace(rest))
				}
			}
			if !slices.Equal(ranges, c.ranges) {
				t.Errorf("asked for %q, want %q", ranges, c.ranges)
			}
			if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(content, repo.Files[name]) {
				t.Errorf("%d bytes, %v", len(content), err)
			}
		})
	}
}

// TestTogether: several that want the same model at once fetch each file once.
func TestTogether(t *testing.T) {
	server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": checkpoint()})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := Find(context.Background(), model, o); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	seen := map[string]int{}
	for _, line := range server.Requests() {
		if strings.HasPrefix(line, "GET /blobs/") {
			seen[line]++
		}
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("%d times %s", n, line)
		}
	}
	if len(seen) != 2 {
		t.Errorf("large files asked for: %v", seen)
	}
}

// TestEnded: a download that is ended says so, leaves no snapshot, and the next one goes on.
func TestEnded(t *testing.T) {
	repo := checkpoint()
	server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": repo})
	ctx, stop := context.WithCancel(t.Context())
	server.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/blobs/") {
			return false
		}
		w.Header().Set("Content-Length", "500000")
		_, _ = w.Write(repo.Files["model-00001-of-00002.safetensors"][:1000])
		w.(http.Flusher).Flush()
		stop()
		<-r.Context().Done()
		return true
	})
	if _, err := Find(ctx, model, o); err == nil || !strings.Contains(err.Error(), "the next start resumes it") {
		t.Errorf("ended: %v", err)
	}
	if list, _ := filepath.Glob(filepath.Join(o.Settings.Cache, "*/snapshots/*")); len(list) > 0 {
		t.Errorf("a snapshot is there: %q", list)
	}
	server.Fault(nil)
	if _, err := Find(t.Context(), model, o); err != nil {
		t.Error(err)
	}
}
