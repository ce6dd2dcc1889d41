package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

// OwnerHeader names the owner on whose behalf a frontend hands a request on. It begins with a letter and has no slash.
const OwnerHeader = "X-Prefillonly-Owner"

// refusal is a status with OpenAI's error body.
type refusal struct {
	status int
	body   *api.Error
}

func (r *refusal) Error() string { return r.body.Message }

func invalidParam(param, format string, args ...any) error {
	return &refusal{http.StatusBadRequest, api.Invalid(param, format, args...)}
}

// Handler serves /v1/files and /v1/batches to frontends.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request, string) error{
		"POST /v1/files": s.uploadFile, "GET /v1/files": s.listFiles, "GET /v1/files/{id}": s.showFile,
		"DELETE /v1/files/{id}": s.dropFile, "GET /v1/files/{id}/content": s.content,
		"POST /v1/batches": s.createBatch, "GET /v1/batches": s.listBatches, "GET /v1/batches/{id}": s.showBatch,
		"POST /v1/batches/{id}/cancel": s.cancelBatch, "/": refuseUnknownPath,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.EnableFullDuplex() // a refusal may come before the body's end
			if err := h(w, r, r.Header.Get(OwnerHeader)); err != nil {
				s.writeRefusal(w, err)
				drainBody(control, r.Body)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path { // the mux would send it elsewhere
			s.writeRefusal(w, refuseUnknownPath(w, r, ""))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// lingerTimeout bounds how long the rest of a body is read that was refused before its end.
const lingerTimeout = 10 * time.Second

// drainBody passes over the rest of a body until who sends it has read the refusal and hangs up: a connection closed before is
// reset, and the refusal lost.
func drainBody(control *http.ResponseController, body io.Reader) {
	_ = control.Flush()
	_ = control.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, body) // its error is the end that is waited for
}

func refuseUnknownPath(_ http.ResponseWriter, r *http.Request, _ string) error {
	return &refusal{http.StatusNotFound, &api.Error{Type: api.TypeNotFound, Code: "unknown_path", Message: fmt.Sprintf("%.20s %.200s is not served", r.Method, r.URL.Path)}}
}

func (s *Service) writeRefusal(w http.ResponseWriter, err error) {
	var known *refusal
	var full *SpaceError
	switch {
	case errors.As(err, &known):
	case errors.As(err, &full):
		known = &refusal{http.StatusRequestEntityTooLarge, &api.Error{Type: api.TypeInvalidRequest, Code: "storage_limit_exceeded", Message: full.Error()}}
	case diskFull(err):
		known = &refusal{http.StatusServiceUnavailable, &api.Error{Type: api.TypeServer, Code: "disk_full", Message: "the server's disk is full and nothing was kept: try again later"}}
	default:
		s.log.Error("a request about files or batches failed", zap.Error(err))
		known = &refusal{http.StatusInternalServerError, &api.Error{Type: api.TypeServer, Code: "internal_error", Message: engine.HidePaths(errorReason(err))}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(known.status)
	text, _ := json.Marshal(known.body) // strings alone
	_, _ = w.Write(text)                // a client that has left hears nothing
}

func writeJSON(w http.ResponseWriter, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that has left hears nothing
	return nil
}

// notFound is the refusal of an id that the owner has nothing under.
func notFound(what, id string) error {
	return &refusal{http.StatusNotFound, &api.Error{Type: api.TypeInvalidRequest, Param: "id", Code: "not_found", Message: fmt.Sprintf("No %s found with id '%.100s'.", what, id)}}
}

func (s *Service) findFile(owner, id string) (*fileRecord, error) {
	var f *fileRecord
	err := s.store.db.View(func(tx *bolt.Tx) (err error) {
		f, err = getRecord[fileRecord](tx, fileBucket, owner, id)
		return err
	})
	if errors.Is(err, errNone) || err == nil && f.isGone(time.Now()) {
		return nil, notFound("file", id)
	}
	return f, err
}

func (s *Service) showFile(w http.ResponseWriter, r *http.Request, owner string) error {
	f, err := s.findFile(owner, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, f.file)
}

func (s *Service) dropFile(w http.ResponseWriter, r *http.Request, owner string) error {
	f, err := s.findFile(owner, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := s.deleteFile(owner, f.ID); errors.Is(err, errNone) {
		return notFound("file", f.ID) // deleted meanwhile
	} else if err != nil {
		return err
	}
	return writeJSON(w, map[string]any{"id": f.ID, "object": "file", "deleted": true})
}

// content sends a file; nothing waits for who reads it.
func (s *Service) content(w http.ResponseWriter, r *http.Request, owner string) error {
	f, err := s.findFile(owner, r.PathValue("id"))
	if err != nil {
		return err
	}
	in, err := os.Open(s.store.path(f.ID))
	if errors.Is(err, os.ErrNotExist) {
		return notFound("file", f.ID) // deleted meanwhile
	}
	if err != nil {
		return err
	}
	defer in.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Unix(f.CreatedAt, 0), in)
	return nil
}

// listPage answers with a page of what an owner has.
func listPage[T, Shown any](s *Service, w http.ResponseWriter, r *http.Request, owner string, bucket []byte, most, standard int, wanted func(*T) bool, show func(*T) (string, Shown)) error {
	query := r.URL.Query()
	limit := standard
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return invalidParam("limit", "invalid limit %.50q: want 1 to %d", text, most)
		}
		limit = n
	}
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return invalidParam("order", "invalid order %.50q: want asc or desc", order)
	}
	var items []*T
	more := false
	err := s.store.db.View(func(tx *bolt.Tx) (err error) {
		items, more, err = recordPage(tx, bucket, owner, query.Get("after"), order != "asc", limit, wanted)
		return err
	})
	if err != nil {
		return err
	}
	out := struct {
		Object  string  `json:"object"`
		Data    []Shown `json:"data"`
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
		HasMore bool    `json:"has_more"`
	}{Object: "list", Data: []Shown{}, HasMore: more}
	for _, item := range items {
		id, shown := show(item)
		if out.FirstID == nil {
			out.FirstID = &id
		}
		out.LastID = &id
		out.Data = append(out.Data, shown)
	}
	return writeJSON(w, out)
}

func (s *Service) listFiles(w http.ResponseWriter, r *http.Request, owner string) error {
	now, purpose := time.Now(), r.URL.Query().Get("purpose")
	return listPage(s, w, r, owner, fileBucket, 10000, 10000,
		func(f *fileRecord) bool { return !f.isGone(now) && (purpose == "" || purpose == f.Purpose) },
		func(f *fileRecord) (string, file) { return f.ID, f.file })
}

func (s *Service) listBatches(w http.ResponseWriter, r *http.Request, owner string) error {
	return listPage(s, w, r, owner, batchBucket, 100, 20,
		func(*batchRecord) bool { return true }, func(b *batchRecord) (string, object) { return b.ID, s.shownBatch(b) })
}

// shownBatch is a batch as it is now.
func (s *Service) shownBatch(b *batchRecord) object {
	s.mu.Lock()
	a := s.active[b.ID]
	s.mu.Unlock()
	if a != nil && !b.ended() {
		b.Counts = a.currentCounts()
	}
	return b.object
}

func (s *Service) showBatch(w http.ResponseWriter, r *http.Request, owner string) error {
	var b *batchRecord
	err := s.store.db.View(func(tx *bolt.Tx) (err error) {
		b, err = getRecord[batchRecord](tx, batchBucket, owner, r.PathValue("id"))
		return err
	})
	if errors.Is(err, errNone) {
		return notFound("batch", r.PathValue("id"))
	}
	if err != nil {
		return err
	}
	return writeJSON(w, s.shownBatch(b))
}

// cancelBatch ends a batch that waits at once, and one that runs when its lines under way have ended.
func (s *Service) cancelBatch(w http.ResponseWriter, r *http.Request, owner string) error {
	s.mu.Lock()
	var b *batchRecord
	id := r.PathValue("id")
	a := s.active[id]
	err := s.store.db.Update(func(tx *bolt.Tx) (err error) {
		if b, err = getRecord[batchRecord](tx, batchBucket, owner, id); err != nil {
			return err
		}
		if b.Status == cancelling {
			return nil
		}
		if b.ended() {
			return invalidParam("id", "Cannot cancel a batch with status '%s'.", b.Status)
		}
		waits := a == nil && b.Status == validating // no line of it was sent
		b.setStatus(cancelling, time.Now())
		if waits {
			b.setStatus(cancelled, time.Now())
		}
		return putRecord(tx, batchBucket, owner, id, b)
	})
	if err == nil && a != nil {
		a.cancel(errCancelled)
	}
	s.mu.Unlock()
	if errors.Is(err, errNone) {
		return notFound("batch", id)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, s.shownBatch(b))
}

// maxBatchBody bounds the body that makes a batch.
const maxBatchBody = 1 << 20

// request makes a batch.
type request struct {
	InputFileID      string            `json:"input_file_id"`
	Endpoint         string            `json:"endpoint"`
	CompletionWindow string            `json:"completion_window"`
	Metadata         map[string]string `json:"metadata"`
	OutputExpires    *struct {
		Anchor  string `json:"anchor"`
		Seconds int64  `json:"seconds"`
	} `json:"output_expires_after"`
}

// mostWindow bounds a completion window.
const mostWindow = 30 * 24 * time.Hour

func (s *Service) createBatch(w http.ResponseWriter, r *http.Request, owner string) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBatchBody+1))
	if err != nil {
		return truncatedBody(err)
	}
	if len(body) > maxBatchBody {
		return invalidParam("", "the body has more than %d bytes", maxBatchBody)
	}
	var in request
	if wrong := api.Decode(body, &in); wrong != nil {
		return &refusal{http.StatusBadRequest, wrong}
	}
	b, err := s.newBatch(owner, &in)
	if err != nil {
		return err
	}
	s.begin(owner)
	return writeJSON(w, s.shownBatch(b))
}

func (s *Service) newBatch(owner string, in *request) (*batchRecord, error) {
	if err := s.checkRequest(in); err != nil {
		return nil, err
	}
	window, _ := time.ParseDuration(in.CompletionWindow) // fit
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	b := &batchRecord{Output: newID("file-", now), Refused: newID("file-", now), object: object{
		ID: newID("batch_", now), Object: "batch", Endpoint: in.Endpoint, InputFileID: in.InputFileID, CompletionWindow: in.CompletionWindow,
		Status: validating, CreatedAt: now.Unix(), ExpiresAt: now.Add(window).Unix(), Metadata: in.Metadata,
	}}
	if in.OutputExpires != nil {
		b.KeepsFor = in.OutputExpires.Seconds
	}
	return b, s.store.db.Update(func(tx *bolt.Tx) error {
		f, err := getRecord[fileRecord](tx, fileBucket, owner, in.InputFileID)
		if errors.Is(err, errNone) || err == nil && f.isGone(now) {
			return notFound("file", in.InputFileID)
		}
		if err != nil {
			return err
		}
		if f.Purpose != "batch" {
			return invalidParam("input_file_id", "the file has purpose %s, want batch", f.Purpose)
		}
		if err := makeRoom(tx, owner, mostBatches); err != nil {
			return err
		}
		return putRecord(tx, batchBucket, owner, b.ID, b)
	})
}

// mostBatches bounds the batches of an owner that are kept.
const mostBatches = 10_000

// makeRoom forgets the oldest batch of an owner that has ended, where there are most; its answers stay.
func makeRoom(tx *bolt.Tx, owner string, most int) error {
	if n := countRecords(tx, batchBucket, owner); n < most {
		return nil
	}
	oldest, found := "", errors.New("found")
	err := eachRecord(tx, batchBucket, owner, func(_ string, b *batchRecord) error {
		if !b.ended() {
			return nil
		}
		oldest = b.ID
		return found
	})
	switch {
	case err == found:
		return tx.Bucket(batchBucket).Delete(keyOf(owner, oldest))
	case err != nil:
		return err
	}
	return &refusal{http.StatusTooManyRequests, &api.Error{Type: api.TypeInvalidRequest, Code: "too_many_batches", Message: fmt.Sprintf("%d batches wait, the limit: create another when one has ended", most)}}
}

// checkRequest is what is wrong with a request for a batch.
func (s *Service) checkRequest(in *request) error {
	window, err := time.ParseDuration(in.CompletionWindow)
	switch {
	case in.InputFileID == "":
		return invalidParam("input_file_id", "missing input_file_id: upload a file with purpose batch, and give its id")
	case !s.cfg.Rules.Serves(in.Endpoint):
		return invalidParam("endpoint", "invalid endpoint %.100q: want a path that scores, embeds or completes", in.Endpoint)
	case err != nil || window < time.Second || window > mostWindow || len(in.CompletionWindow) > 50:
		return invalidParam("completion_window", "invalid completion_window %.50q: want a time such as 24h, from 1s to %v", in.CompletionWindow, mostWindow)
	case len(in.Metadata) > 16:
		return invalidParam("metadata", "metadata has %d keys, want at most 16", len(in.Metadata))
	case in.OutputExpires != nil:
		if err := checkExpiry(in.OutputExpires.Anchor, in.OutputExpires.Seconds); err != nil {
			return invalidParam("output_expires_after", "%v", err)
		}
	}
	for key, value := range in.Metadata {
		if len(key) > 64 || len(value) > 512 {
			return invalidParam("metadata", "metadata has a key of %d and a value of %d bytes, want at most 64 and 512", len(key), len(value))
		}
	}
	return nil
}
