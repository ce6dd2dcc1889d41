package service

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// file is OpenAI's file object.
type file struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt *int64 `json:"expires_at,omitempty"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

// fileRecord is a file as the store has it.
type fileRecord struct {
	file
	Deleted bool `json:"deleted,omitempty"` // by its owner, while a batch reads it
}

func (f *fileRecord) isGone(now time.Time) bool {
	return f.Deleted || f.ExpiresAt != nil && *f.ExpiresAt <= now.Unix()
}

// The states of a batch.
const (
	validating = "validating"
	inProgress = "in_progress"
	finalizing = "finalizing"
	cancelling = "cancelling"
	cancelled  = "cancelled"
	completed  = "completed"
	expired    = "expired"
	failed     = "failed"
)

// object is OpenAI's batch object.
type object struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Endpoint         string            `json:"endpoint"`
	Errors           *errorList        `json:"errors"`
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           string            `json:"status"`
	OutputFileID     *string           `json:"output_file_id"`
	ErrorFileID      *string           `json:"error_file_id"`
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     *int64            `json:"in_progress_at"`
	ExpiresAt        int64             `json:"expires_at"`
	FinalizingAt     *int64            `json:"finalizing_at"`
	CompletedAt      *int64            `json:"completed_at"`
	FailedAt         *int64            `json:"failed_at"`
	ExpiredAt        *int64            `json:"expired_at"`
	CancellingAt     *int64            `json:"cancelling_at"`
	CancelledAt      *int64            `json:"cancelled_at"`
	Counts           counts            `json:"request_counts"`
	Metadata         map[string]string `json:"metadata"`
}

type counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

type errorList struct {
	Object string      `json:"object"`
	Data   []lineError `json:"data"`
}

type lineError struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Line    *int    `json:"line"`
}

// batchRecord is a batch as the store has it.
type batchRecord struct {
	object
	Output   string `json:"output"` // ids that its answers and its refusals get, if there are any
	Refused  string `json:"refused"`
	KeepsFor int64  `json:"keeps_for,omitempty"` // seconds; 0: for ever
}

func (b *batchRecord) ended() bool {
	switch b.Status {
	case cancelled, completed, expired, failed:
		return true
	}
	return false
}

// setStatus brings the batch into a state.
func (b *batchRecord) setStatus(status string, now time.Time) {
	b.Status = status
	at := now.Unix()
	switch status {
	case inProgress:
		b.InProgressAt = &at
	case finalizing:
		b.FinalizingAt = &at
	case cancelling:
		b.CancellingAt = &at
	case cancelled:
		b.CancelledAt = &at
	case completed:
		b.CompletedAt = &at
	case expired:
		b.ExpiredAt = &at
	case failed:
		b.FailedAt = &at
	}
}

// fail ends the batch with errors.
func (b *batchRecord) fail(now time.Time, errors ...lineError) {
	b.setStatus(failed, now)
	b.Errors = &errorList{"list", errors}
}

// newID is one behind all that were made before, in the order of bytes.
func newID(prefix string, now time.Time) string {
	var random [4]byte
	rand.Read(random[:])
	return fmt.Sprintf("%s%016x%s", prefix, now.UnixNano(), hex.EncodeToString(random[:]))
}
