package hub

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/internal/hub/hubtest"
)

// TestUnusableRepositoriesAreRefused: every refusal names the next step.
func TestUnusableRepositoriesAreRefused(t *testing.T) {
	with := func(change func(*hubtest.Repo)) *hubtest.Repo {
		r := checkpoint()
		change(r)
		return r
	}
	index := func(text string) *hubtest.Repo {
		return with(func(r *hubtest.Repo) { r.Files[indexFile] = []byte(text) })
	}
	server, o := hubOf(t, map[string]*hubtest.Repo{
		"org/gated": with(func(r *hubtest.Repo) { r.Token, r.Gated = "hf_right", true }), "org/secret": with(func(r *hubtest.Repo) { r.Token = "hf_right" }),
		"org/m": checkpoint(), "org/pickles": {Files: map[string][]byte{"config.json": []byte("{}"), "pytorch_model.bin": nil}},
		"org/data": {Files: map[string][]byte{"a.csv": nil}}, "org/neither": {Files: map[string][]byte{"config.json": []byte("{}")}},
		"org/out": index(`{"weight_map":{"a":"../../evil.safetensors"}}`), "org/abs": index(`{"weight_map":{"a":"/etc/passwd"}}`),
		"org/lacks": index(`{"weight_map":{"a":"model-9.safetensors"}}`), "org/noindex": index(`no JSON`),
		"org/module": with(func(r *hubtest.Repo) { r.Files[modulesFile] = []byte(`[{"path":"../../../x"}]`) }),
	})
	for _, c := range []struct{ word, token, want string }{
		{"org/none", "", "no such public repository: check the name; for a private one set HF_TOKEN"},
		{"org/none", "hf_right", "no such repository that the token may read"},
		{"org/secret", "", "for a private one set HF_TOKEN"},
		{"org/secret", "hf_right", ""},
		{"org/gated", "", "then set HF_TOKEN, or log in with `hf auth login`"},
		{"org/gated", "hf_wrong", "request it at " + server.Hub.URL + "/org/gated"},
		{"org/gated", "hf_right", ""},
		{"org/m@v9", "", `has no revision "v9" of it: ` + server.Hub.URL + "/org/m/refs lists all"},
		{"org/pickles", "", `holds weights in another format ("pytorch_model.bin") and no model.safetensors`},
		{"org/data", "", "the repository has no config.json"},
		{"org/neither", "", "neither model.safetensors nor model.safetensors.index.json"},
		{"org/out", "", `"../../evil.safetensors", want a safetensors file of the repository`},
		{"org/abs", "", `"/etc/passwd", want a safetensors file of the repository`},
		{"org/lacks", "", `names "model-9.safetensors", which is not in the repository`},
		{"org/noindex", "", "model.safetensors.index.json: invalid"},
		{"org/module", "", `"../../../x", which is outside the repository`},
	} {
		own := o
		own.Settings.token = c.token
		m, err := Parse(c.word, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Find(t.Context(), m, own)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %q", c.word, c.token, err, c.want)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), `model "`+c.word+`"`) || strings.Contains(err.Error(), "hf_")) {
			t.Errorf("%s: %v", c.word, err)
		}
	}
	for _, line := range server.Requests() {
		if strings.Contains(line, "/blobs/") && strings.Contains(line, "Bearer") {
			t.Errorf("another host gets the token: %s", line)
		}
	}
}

// TestNames: what is no name of a repository or a revision.
func TestNames(t *testing.T) {
	for word, want := range map[string]string{
		"org/m": "org/m main", "gpt2": "gpt2 main", "org/m@v1": "org/m v1", "org/m@refs/pr/1": "org/m refs/pr/1", "org/m@": "", "org/m@../x": "", "org/m@/x": "",
		"org/m@a b": "", "org/m@a\x00": "", "a--b": "", "a/b..c": "", "a/b/c": "", "../m": "", "": "", "org/m.git": "", "org/m@a//b": "", "org/..": "",
	} {
		m, err := Parse(word, "")
		if got := m.ID + " " + m.Revision; (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %q, %v; want %q", word, got, err, want)
		}
	}
	if _, err := Parse("org/m@a", "b"); err == nil {
		t.Error("two revisions are taken")
	}
	if m, err := Parse("org/m", "b"); err != nil || m.Revision != "b" {
		t.Error(m, err)
	}
}

// TestSettings: the variables, in huggingface_hub's order; passwords are in no error.
func TestSettings(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "token"), []byte("hf_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env                          map[string]string
		cache, endpoint, user, token string
	}{
		{map[string]string{"HOME": "/h"}, "/h/.cache/huggingface/hub", "https://huggingface.co", "", ""},
		{map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub", "https://huggingface.co", "", ""},
		{map[string]string{"HOME": "/h", "HF_HOME": "~/y", "HF_ENDPOINT": "http://host:80/base/"}, "/h/y/hub", "http://host:80/base", "", ""},
		{map[string]string{"HF_HOME": home, "HF_HUB_CACHE": "/z"}, "/z", "https://huggingface.co", "", "hf_file"},
		{map[string]string{"HF_HOME": home, "HF_TOKEN": " hf_env\n"}, home + "/hub", "https://huggingface.co", "", "hf_env"},
		{map[string]string{"HF_HOME": "/y", "HF_TOKEN_PATH": home + "/token"}, "/y/hub", "https://huggingface.co", "", "hf_file"},
		{map[string]string{"HF_HOME": home, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_ENDPOINT": "https://u:p%2Fw@h"}, home + "/hub", "https://h", "u:p/w", ""},
		{map[string]string{"HF_HOME": "/y", "HF_ENDPOINT": "https://u:p@w ^%zz\"é@h/x"}, "/y/hub", "https://h/x", "u:p@w ^%zz\"é", ""},
	} {
		s := settings(t, c.env)
		user := ""
		if s.user != nil {
			password, _ := s.user.Password()
			user = s.user.Username() + ":" + password
		}
		if s.Cache != c.cache || s.Endpoint.String() != c.endpoint || user != c.user || s.token != c.token {
			t.Errorf("%v: %s %s %s %s", c.env, s.Cache, s.Endpoint, user, s.token)
		}
	}
	for _, env := range []map[string]string{
		{"HF_ENDPOINT": "https://u:secret#x@h"}, {"HF_ENDPOINT": "https://u:secret/x@h"}, {"HF_ENDPOINT": "https://u:1?secret@h"}, {"HF_ENDPOINT": "secret"}, {"HF_ENDPOINT": "ftp://secret"},
		{"HF_ENDPOINT": "https://u:secret@h:port"}, {"HF_ENDPOINT": "https://u:secret@"}, {"HF_TOKEN": "hf secret"}, {"HF_TOKEN": "secret\r\nX: y"}, {"HF_HUB_DOWNLOAD_TIMEOUT": "soon"}, {"HOME": ""},
	} {
		all := map[string]string{"HOME": home}
		maps.Copy(all, env)
		if _, err := FromEnvironment(func(name string) string { return all[name] }); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v", env, err)
		}
	}
}

// TestSecrets: nobody but the endpoint hears who asks, and no error tells it or the signature of an address.
func TestSecrets(t *testing.T) {
	server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": checkpoint()})
	host := strings.TrimPrefix(server.Hub.URL, "http://")
	server.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		gone := strings.HasPrefix(r.URL.Path, "/blobs/")
		if gone {
			http.NotFound(w, r)
		}
		return gone
	})
	for _, env := range []map[string]string{
		{"HF_ENDPOINT": "http://me:p%40ss@" + host}, {"HF_ENDPOINT": server.Hub.URL, "HF_TOKEN": "hf_token"},
	} {
		env["HF_HOME"] = t.TempDir()
		o.Settings = settings(t, env)
		_, err := Find(t.Context(), model, o)
		if err == nil {
			t.Fatal("found")
		}
		for _, secret := range []string{"me:", "p@ss", "p%40ss", "hf_token", "signed"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q is in %v", secret, err)
			}
		}
		authorized := false
		for _, line := range server.Requests() {
			authorized = authorized || strings.Contains(line, "Basic bWU6cEBzcw==") || strings.Contains(line, "Bearer hf_token")
		}
		if !authorized {
			t.Errorf("%v: nobody says who asks", env)
		}
	}
	server.Close()
	if _, err := Find(t.Context(), model, o); err == nil || !strings.Contains(err.Error(), "cannot reach "+host) {
		t.Errorf("no network: %v", err)
	}
}

// TestCaches: what others have left in the cache is used, and completed where the hub says there is more to it.
func TestCaches(t *testing.T) {
	repo := checkpoint()
	server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": repo})
	dir, err := Find(t.Context(), model, o)
	if err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(dir, "../..")
	if err := os.RemoveAll(filepath.Join(top, ".no_exist")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, modulesFile)); err != nil { // as after transformers, which does not read it
		t.Fatal(err)
	}
	server.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	if got, err := Find(t.Context(), model, o); err != nil || got != dir {
		t.Errorf("without the hub: %s, %v", got, err)
	}
	server.Fault(nil)
	if _, err := Find(t.Context(), model, o); err != nil || !isFile(filepath.Join(dir, modulesFile)) {
		t.Errorf("with the hub: %v", err)
	}
	// huggingface_hub's listing says what a commit has.
	tree := `{"format_version":1,"files":{"config.json":{"size":38,"blob_id":"` + repo.Digest(configFile) + `"},"model.safetensors":{"size":134,"blob_id":"x","lfs_sha256":"y","lfs_size":9}}}`
	if err := os.MkdirAll(filepath.Join(top, "trees"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "trees", repo.Commit()+".json"), []byte(tree), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := o
	refused.Refusal = "download it first"
	if _, err := Find(t.Context(), model, refused); err == nil || !strings.Contains(err.Error(), "lacks model.safetensors): download it first") {
		t.Errorf("incomplete by huggingface_hub's listing: %v", err)
	}
	if err := os.WriteFile(filepath.Join(top, "refs", "main"), []byte("../../../etc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), model, refused); err == nil || !strings.Contains(err.Error(), "neither a directory nor in the Hugging Face cache") {
		t.Errorf("a ref that leads out: %v", err)
	}
}

// TestRoom: sizes that no disk has are refused before anything is fetched.
func TestRoom(t *testing.T) {
	server, o := hubOf(t, map[string]*hubtest.Repo{"org/m": checkpoint()})
	for size, want := range map[string]string{"200000000000000": "make room there, or set HF_HOME", "900000000000000000": "invalid size", "-5": "invalid size"} {
		server.Fault(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/api/") {
				return false
			}
			_, _ = w.Write([]byte(`{"sha":"` + strings.Repeat("a", 40) + `","siblings":[{"rfilename":"config.json","size":2,"blobId":"` + strings.Repeat("b", 40) +
				`"},{"rfilename":"tokenizer.json","size":2,"blobId":"` + strings.Repeat("c", 40) + `"},{"rfilename":"../../model.safetensors","size":1},{"rfilename":"model.safetensors","lfs":{"sha256":"` +
				strings.Repeat("d", 64) + `","size":` + size + `}}]}`))
			return true
		})
		own := o
		own.Settings.Cache = t.TempDir()
		// The small files are here already.
		for _, digest := range []string{"b", "c"} {
			at := filepath.Join(own.Settings.Cache, "models--org--m", "blobs", strings.Repeat(digest, 40))
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Find(t.Context(), model, own); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s bytes: %v, want %q", size, err, want)
		}
	}
}
