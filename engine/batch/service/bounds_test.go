package service

import (
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// TestForms: forms that would fill the store with what is no file are refused, and leave nothing.
func TestForms(t *testing.T) {
	k := open(t)
	fields := []string{"purpose", "batch"}
	for i := range maxFields {
		fields = append(fields, fmt.Sprint(i), "x")
	}
	if status, v := k.upload("o1", "x", fields...); status != 400 || !strings.Contains(fmt.Sprint(v), "fields") {
		t.Errorf("many fields: %d %v", status, v)
	}
	var body strings.Builder
	form := multipart.NewWriter(&body)
	_, _ = form.CreateFormFile("file", strings.Repeat("n", maxName+1))
	_ = form.Close()
	if status, v := k.call("o1", "POST", "/v1/files", form.FormDataContentType(), strings.NewReader(body.String())); status != 400 || !strings.Contains(fmt.Sprint(v), "name") {
		t.Errorf("a long name: %d %v", status, v)
	}
	k.nothingLeft(0)
	k.fine("o1", strings.Repeat("x", int(k.space)-4*fileCost))
	for n, want := range []int{200, 200, 200, 413} {
		if status, v := k.upload("o1", "", "purpose", "batch"); status != want {
			t.Errorf("empty file %d: %d %v, want %d", n, status, v, want)
		}
	}
	if status, v := k.call("o1", "GET", "/v1/files/../batches", "", nil); status != 404 {
		t.Errorf("a path with ..: %d %v", status, v)
	}
}

// TestLongWindow: a window is no place to keep a mebibyte in each of the batches that are kept.
func TestLongWindow(t *testing.T) {
	k := open(t)
	input := k.fine("o1", lines(1))
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/completions","completion_window":"%s24h"}`, input, strings.Repeat("0h", 1000))
	if status, v := k.call("o1", "POST", "/v1/batches", "application/json", strings.NewReader(body)); status != 400 || !strings.Contains(fmt.Sprint(v), "completion_window") {
		t.Errorf("%d %v", status, v)
	}
}

// TestForgotten: beyond the most batches the oldest that has ended is forgotten, and where none has there is no room.
func TestForgotten(t *testing.T) {
	k := open(t)
	close(k.gate)
	input := k.fine("o1", lines(1))
	first := k.batch("o1", input)
	done := k.becomes("o1", first, "completed")
	second := k.batch("o1", input)
	k.becomes("o1", second, "completed")
	db := k.service.store.db
	if err := db.Update(func(tx *bolt.Tx) error { return makeRoom(tx, "o1", 2) }); err != nil {
		t.Fatal(err)
	}
	if status, _ := k.call("o1", "GET", "/v1/batches/"+first, "", nil); status != 404 {
		t.Errorf("the oldest batch: %d", status)
	}
	k.get("o1", "/v1/batches/"+second)
	k.get("o1", "/v1/files/"+done["output_file_id"].(string))
	err := db.Update(func(tx *bolt.Tx) error {
		if err := putRecord(tx, batchBucket, "o2", "batch_1", &batchRecord{object: object{Status: validating}}); err != nil {
			return err
		}
		return makeRoom(tx, "o2", 1)
	})
	var refused *refusal
	if !errors.As(err, &refused) || refused.status != http.StatusTooManyRequests {
		t.Errorf("without one that has ended: %v", err)
	}
}

// TestCancelledAfter: a batch that is cancelled, and whose process ends before it is, has the counts of its answers.
func TestCancelledAfter(t *testing.T) {
	k := open(t)
	id := k.batch("o1", k.fine("o1", lines(30)))
	k.becomes("o1", id, "in_progress")
	for range 5 {
		k.gate <- struct{}{}
	}
	for deadline := time.Now().Add(60 * time.Second); k.get("o1", "/v1/batches/"+id)["request_counts"].(map[string]any)["completed"] != 5.0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("five lines are not answered")
		}
	}
	k.close()
	if err := marked(k, id); err != nil {
		t.Fatal(err)
	}
	k.start()
	b := k.becomes("o1", id, "cancelled")
	if got := fmt.Sprint(b["request_counts"]); got != "map[completed:5 failed:0 total:30]" {
		t.Errorf("the counts are %s", got)
	}
}

// marked brings a batch of a closed service into the state in which a process that died left it.
func marked(k *kept, id string) error {
	st, err := openStore(k.dir)
	if err != nil {
		return err
	}
	err = st.db.Update(func(tx *bolt.Tx) error {
		b, err := getRecord[batchRecord](tx, batchBucket, "o1", id)
		if err != nil {
			return err
		}
		b.Status = cancelling
		return putRecord(tx, batchBucket, "o1", id, b)
	})
	return errors.Join(err, st.db.Close())
}
