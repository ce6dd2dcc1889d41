package hub

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
)

// refusal is a hub's answer that is none of what was asked for.
type refusal struct {
	status        int
	code, message string // X-Error-Code and X-Error-Message
}

// isTransient says that the same question may be answered later.
func (r *refusal) isTransient() bool {
	switch r.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("status %d", r.status)
	if r.code != "" {
		text += fmt.Sprintf(" %.60q", r.code)
	}
	if r.message != "" {
		text += fmt.Sprintf(" %.200q", r.message)
	}
	return text
}

// explainRefusal says what a refusal means for a model, and what to do.
func (r *refusal) explainRefusal(m Model, hub string, file string, token bool) error {
	switch {
	case r.code == "GatedRepo" && token:
		return fmt.Errorf("the repository is gated, and the token's account has no access: request it at %s/%s, and check that the token may read gated repositories", hub, m.ID)
	case r.code == "GatedRepo":
		return fmt.Errorf("the repository is gated and no token is set: request access at %s/%s, then set HF_TOKEN, or log in with `hf auth login`", hub, m.ID)
	case r.code == "RevisionNotFound":
		return fmt.Errorf("%s has no revision %q of it: %s/%s/refs lists all", hub, m.Revision, hub, m.ID)
	case r.code == "EntryNotFound":
		return fmt.Errorf("%s lists %s but does not have it: try again", hub, file)
	case r.status == http.StatusUnauthorized && token && r.code != "RepoNotFound":
		return fmt.Errorf("%s rejects the token: set HF_TOKEN to a valid one, or log in again with `hf auth login` (%w)", hub, r)
	case (r.code == "RepoNotFound" || r.status == http.StatusUnauthorized || r.status == http.StatusNotFound) && token:
		return fmt.Errorf("no such directory, and %s has no such repository that the token may read: check the name", hub)
	case r.code == "RepoNotFound", r.status == http.StatusUnauthorized, r.status == http.StatusNotFound:
		return fmt.Errorf("no such directory, and %s has no such public repository: check the name; for a private one set HF_TOKEN, or log in with `hf auth login`", hub)
	case r.status == http.StatusForbidden:
		return fmt.Errorf("%s refuses access (%w): check that the token may read it", hub, r)
	case r.status == http.StatusTooManyRequests:
		return fmt.Errorf("too many requests to %s (%w): try again later, or set HF_TOKEN", hub, r)
	}
	return fmt.Errorf("%s answered %w: try again, or another HF_ENDPOINT", hub, r)
}

// listingError is a repository of which the hub did not say what is in it.
type listingError struct{ err error }

func (e *listingError) Error() string { return e.err.Error() }
func (e *listingError) Unwrap() error { return e.err }

// spaceError is a disk that is too small, which was seen before or in the middle.
func spaceError(dir string, need, free int64) error {
	return fmt.Errorf("%s has %s free, want %s: make room there, or set HF_HOME to a directory on a larger disk", dir, formatBytes(free), formatBytes(need))
}

// explainWriteError explains what kept a file from being written to the cache.
func explainWriteError(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room in %s, and the next start resumes the download, or set HF_HOME to a directory on a larger disk", err, dir)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: set HF_HOME to a writable directory", err)
	}
	return err
}

// formatBytes is an amount as disks count it.
func formatBytes(n int64) string {
	if n < 1e8 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
