package service

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/prefillonly/prefillonly/engine/api"
)

// upload is a file on its way in.
type upload struct {
	s       *Service
	owner   string
	id      string
	path    string
	name    string
	purpose string
	anchor  string
	seconds string
	bytes   int64 // counted in space, beside fileCost
	there   bool
	fields  int
}

// maxField bounds a field of a form that is not the file, in bytes, maxFields how many there are, and maxName the file's name.
const (
	maxField  = 4 << 10
	maxFields = 64
	maxName   = 255
)

func (s *Service) uploadFile(w http.ResponseWriter, r *http.Request, owner string) error {
	form, err := r.MultipartReader()
	if err != nil {
		return invalidParam("file", "invalid form: %v: want multipart/form-data with the fields purpose and file", err)
	}
	id := newID("file-", time.Now())
	u := &upload{s: s, owner: owner, id: id, path: filepath.Join(s.store.uploads(), id)}
	if err := s.space.takeBytes(owner, fileCost); err != nil {
		return err
	}
	f, err := u.readForm(form)
	if err != nil {
		s.space.giveBytes(owner, u.bytes+fileCost)
		_ = os.Remove(u.path) // it may not be there
		return err
	}
	return writeJSON(w, f.file)
}

// readForm reads the form and keeps its file.
func (u *upload) readForm(form *multipart.Reader) (*fileRecord, error) {
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			return u.storeFile()
		}
		if err != nil {
			return nil, truncatedBody(err)
		}
		if err := u.readPart(part); err != nil {
			return nil, err
		}
	}
}

func truncatedBody(err error) error {
	return &refusal{http.StatusBadRequest, &api.Error{Type: api.TypeInvalidRequest, Code: "body_truncated", Message: fmt.Sprintf("the form ended early: %v; nothing was kept", err)}}
}

func (u *upload) readPart(p *multipart.Part) error {
	fields := map[string]*string{"purpose": &u.purpose, "expires_after[anchor]": &u.anchor, "expires_after[seconds]": &u.seconds}
	if p.FormName() == "file" {
		return u.readFilePart(p)
	}
	u.fields++
	text, err := io.ReadAll(io.LimitReader(p, maxField+1))
	switch into := fields[p.FormName()]; {
	case u.fields > maxFields:
		return invalidParam("", "the form has more than %d fields", maxFields)
	case err != nil:
		return truncatedBody(err)
	case len(text) > maxField:
		return invalidParam(p.FormName(), "the field %.100q has more than %d bytes", p.FormName(), maxField)
	case into != nil:
		*into = string(text)
	}
	return nil
}

// readFilePart takes in the file's bytes.
func (u *upload) readFilePart(p *multipart.Part) error {
	if u.there {
		return invalidParam("file", "the form has several files, want one")
	}
	if u.there, u.name = true, p.FileName(); len(u.name) > maxName {
		return invalidParam("file", "the file name has %d bytes, want at most %d", len(u.name), maxName)
	}
	out, err := os.OpenFile(u.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = u.copy(out, p)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func (u *upload) copy(out io.Writer, in io.Reader) error {
	for buffer := make([]byte, 256<<10); ; {
		n, err := in.Read(buffer)
		if err := u.s.space.takeBytes(u.owner, int64(n)); err != nil {
			return err
		}
		u.bytes += int64(n)
		if _, err := out.Write(buffer[:n]); err != nil {
			return err
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return truncatedBody(err)
		}
	}
}

// storeFile makes a file of what was taken in.
func (u *upload) storeFile() (*fileRecord, error) {
	now := time.Now()
	switch {
	case !u.there:
		return nil, invalidParam("file", "missing field file")
	case u.purpose != "batch":
		return nil, invalidParam("purpose", "invalid purpose %.50q: want batch", u.purpose)
	}
	f := &fileRecord{file: file{ID: u.id, Object: "file", Bytes: u.bytes, CreatedAt: now.Unix(), Filename: u.name, Purpose: u.purpose, Status: "processed"}}
	if u.anchor != "" || u.seconds != "" {
		seconds, err := strconv.ParseInt(u.seconds, 10, 64)
		if err != nil || checkExpiry(u.anchor, seconds) != nil {
			return nil, checkExpiry(u.anchor, max(0, seconds))
		}
		at := f.CreatedAt + seconds
		f.ExpiresAt = &at
	}
	err := u.s.store.keepUpload(u.path, u.id)
	if err != nil {
		return nil, errors.Join(err, u.s.store.remove(u.id))
	}
	err = u.s.store.db.Update(func(tx *bolt.Tx) error { return putRecord(tx, fileBucket, u.owner, u.id, f) })
	if err != nil {
		return nil, errors.Join(err, u.s.store.remove(u.id))
	}
	return f, nil
}

// leastExpiry and mostExpiry are OpenAI's bounds on expires_after, in seconds.
const leastExpiry, mostExpiry = 3600, 2592000

// checkExpiry is what is wrong with expires_after.
func checkExpiry(anchor string, seconds int64) error {
	if anchor != "created_at" || seconds < leastExpiry || seconds > mostExpiry {
		return invalidParam("expires_after", "invalid expires_after: want anchor created_at and seconds from %d to %d", leastExpiry, mostExpiry)
	}
	return nil
}

// diskFull says that an error is that of a full disk.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
