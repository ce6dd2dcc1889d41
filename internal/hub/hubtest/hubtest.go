// Package hubtest speaks a Hugging Face hub's protocol for tests: repositories of files in memory, whose large files come from
// another host, and the faults of servers.
package hubtest

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's name of a blob
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Repo is a repository with one commit.
type Repo struct {
	Files     map[string][]byte
	Large     []string // those of Files that come from the other host, with their SHA-256
	Revisions []string // beside main
	Token     string   // that may read it; empty: all may
	Gated     bool     // whoever else asks is told so
	Plain     bool     // listings of the revision are without sizes and checksums, as some mirrors' are
}

// Commit is made of the content.
func (r *Repo) Commit() string {
	h := sha1.New() //nolint:gosec // see above
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		fmt.Fprintf(h, "%s %s\n", name, blobID(r.Files[name]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func blobID(content []byte) string {
	h := sha1.New() //nolint:gosec // see above
	fmt.Fprintf(h, "blob %d\x00%s", len(content), content)
	return hex.EncodeToString(h.Sum(nil))
}

// Digest is the name of a file's blob in a cache.
func (r *Repo) Digest(name string) string {
	if slices.Contains(r.Large, name) {
		sum := sha256.Sum256(r.Files[name])
		return hex.EncodeToString(sum[:])
	}
	return blobID(r.Files[name])
}

// Server is a hub, and the host of its large files.
type Server struct {
	Repos map[string]*Repo
	Hub   *httptest.Server
	CDN   *httptest.Server
	Pause time.Duration // between 64 KiB of a large file

	mu       sync.Mutex
	requests []string                                          // guarded by mu
	fault    func(w http.ResponseWriter, r *http.Request) bool // guarded by mu
}

// New starts a hub on free ports of the loopback interface.
func New(repos map[string]*Repo) *Server {
	s := &Server{Repos: repos}
	s.Hub = httptest.NewServer(s.recordRequests(s.serveHub))
	s.CDN = httptest.NewServer(s.recordRequests(s.serveCDN))
	return s
}

// Close ends it.
func (s *Server) Close() {
	s.Hub.CloseClientConnections()
	s.CDN.CloseClientConnections()
	s.Hub.Close()
	s.CDN.Close()
}

// Fault lets f answer requests before the hub does; it says whether it has.
func (s *Server) Fault(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Requests are those since the last call: method, path, and what they carry of Range and Authorization.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.requests
	s.requests = nil
	return list
}

func (s *Server) recordRequests(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		line := r.Method + " " + r.URL.Path
		for _, name := range []string{"Range", "Authorization"} {
			if value := r.Header.Get(name); value != "" {
				line += " " + value
			}
		}
		s.mu.Lock()
		s.requests = append(s.requests, line)
		fault := s.fault
		s.mu.Unlock()
		if fault == nil || !fault(w, r) {
			next(w, r)
		}
	}
}

// refuseRequest is a refusal in the hub's words.
func refuseRequest(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	http.Error(w, message, status)
}

func (s *Server) serveHub(w http.ResponseWriter, r *http.Request) {
	path, api := strings.CutPrefix(r.URL.Path, "/api/models/")
	id, rest := strings.TrimPrefix(path, "/"), ""
	for _, word := range []string{"/revision/", "/tree/", "/resolve/"} {
		if before, after, ok := strings.Cut(id, word); ok {
			id, rest = before, word[1:]+after
		}
	}
	repo := s.Repos[id]
	allowed := repo != nil && (repo.Token == "" || r.Header.Get("Authorization") == "Bearer "+repo.Token)
	switch {
	case repo == nil, !allowed && !repo.Gated:
		refuseRequest(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
		return
	case !allowed && !api:
		refuseRequest(w, http.StatusForbidden, "GatedRepo", "Access to model "+id+" is restricted")
		return
	}
	kind, rest, _ := strings.Cut(rest, "/")
	if kind == "" {
		kind, rest = "revision", "main"
	}
	revision, name := rest, ""
	if kind == "resolve" {
		revision, name, _ = strings.Cut(rest, "/")
	}
	commit := repo.Commit()
	if revision != "main" && revision != commit && !slices.Contains(repo.Revisions, revision) {
		refuseRequest(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		return
	}
	w.Header().Set("X-Repo-Commit", commit)
	switch kind {
	case "revision":
		s.answerJSON(w, map[string]any{"id": id, "modelId": id, "sha": commit, "private": false, "siblings": repo.listSiblings(r.URL.Query().Get("blobs") == "true" && !repo.Plain)})
	case "tree":
		s.serveTree(w, r, repo)
	case "resolve":
		s.serveFile(w, r, repo, name)
	}
}

func (s *Server) answerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that has left wants nothing more
}

func (r *Repo) listSiblings(blobs bool) (list []map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		f := map[string]any{"rfilename": name}
		if blobs {
			f["size"], f["blobId"] = len(r.Files[name]), blobID(r.Files[name])
			if slices.Contains(r.Large, name) {
				f["lfs"] = map[string]any{"sha256": r.Digest(name), "size": len(r.Files[name]), "pointerSize": 134}
			}
		}
		list = append(list, f)
	}
	return list
}

// serveTree answers in pages of three files.
func (s *Server) serveTree(w http.ResponseWriter, r *http.Request, repo *Repo) {
	names, from := slices.Sorted(maps.Keys(repo.Files)), 0
	_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &from)
	to := min(from+3, len(names))
	list := []map[string]any{}
	for _, name := range names[min(from, to):to] {
		f := map[string]any{"type": "file", "path": name, "size": len(repo.Files[name]), "oid": blobID(repo.Files[name])}
		if slices.Contains(repo.Large, name) {
			f["lfs"] = map[string]any{"oid": repo.Digest(name), "size": len(repo.Files[name]), "pointerSize": 134}
		}
		list = append(list, f)
	}
	if to < len(names) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, s.Hub.URL, r.URL.Path, to))
	}
	s.answerJSON(w, list)
}

func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, repo *Repo, name string) {
	content, ok := repo.Files[name]
	if !ok {
		refuseRequest(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	if !slices.Contains(repo.Large, name) {
		w.Header().Set("ETag", `"`+repo.Digest(name)+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+repo.Digest(name)+`"`)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
	http.Redirect(w, r, s.CDN.URL+"/blobs/"+repo.Digest(name)+"?X-Amz-Signature=signed", http.StatusFound)
}

func (s *Server) serveCDN(w http.ResponseWriter, r *http.Request) {
	digest := strings.TrimPrefix(r.URL.Path, "/blobs/")
	if r.Header.Get("Authorization") != "" {
		http.Error(w, "two ways to say who asks", http.StatusBadRequest)
		return
	}
	for _, repo := range s.Repos {
		for _, name := range repo.Large {
			if repo.Digest(name) == digest {
				w.Header().Set("ETag", `"other than the hub's"`)
				http.ServeContent(&slow{w, s.Pause}, r, "", time.Time{}, bytes.NewReader(repo.Files[name]))
				return
			}
		}
	}
	http.NotFound(w, r)
}

// slow pauses between writes.
type slow struct {
	http.ResponseWriter
	pause time.Duration
}

func (s *slow) Write(b []byte) (n int, err error) {
	for part := range slices.Chunk(b, 64<<10) {
		m, err := s.ResponseWriter.Write(part)
		if n += m; err != nil {
			return n, err
		}
		if s.pause > 0 {
			_ = http.NewResponseController(s.ResponseWriter).Flush()
			time.Sleep(s.pause)
		}
	}
	return n, nil
}
