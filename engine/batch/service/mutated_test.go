package service

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/internal/mutate"
)

var mutatedBodies = flag.Int("bodies", 600, "bodies that TestMutatedBodies sends")

// TestMutatedBodies sends forms, files of lines and batches that come of good ones by hostile values, swaps, cuts and flipped bits: each is kept or
// refused as others are, batches end, and deleting what was kept gives all room back.
func TestMutatedBodies(t *testing.T) {
	k := open(t)
	close(k.gate)
	pick := rand.New(rand.NewPCG(1, uint64(*mutatedBodies)))
	form := func(fields, content string) string {
		return fields + "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n" + content + "\r\n--b--\r\n"
	}
	purpose := "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
	forms := []string{
		form(purpose, lines(3)), form(purpose+"--b\r\nContent-Disposition: form-data; name=\"expires_after[anchor]\"\r\n\r\ncreated_at\r\n--b\r\nContent-Disposition: form-data; name=\"expires_after[seconds]\"\r\n\r\n3600\r\n", lines(1)),
	}
	batches := []string{
		`{"input_file_id":"ID","endpoint":"/v1/completions","completion_window":"24h","metadata":{"a":"b"}}`,
		`{"input_file_id":"ID","endpoint":"/v1/completions","completion_window":"1s","output_expires_after":{"anchor":"created_at","seconds":3600}}`,
	}
	uploads := &mutate.Mutator{Rand: pick, Seeds: forms, Values: append(slices.Clone(mutate.JSON), "\r\n", "--b", "--b--", "\r\n\r\n", "batch"), Marks: "\r\n :;=,{}\""}
	makes := mutate.OfJSON(pick, batches)
	statuses, file, batch := map[string]int{}, "none", "none"
	send := func(method, path, kind, body string) string {
		r := httptest.NewRequest(method, "http://x"+path, strings.NewReader(body))
		r.Header.Set(OwnerHeader, "o1")
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		k.service.Handler().ServeHTTP(w, r)
		var said struct{ ID string }
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code >= 500 || w.Code != http.StatusOK && !strings.Contains(w.Body.String(), `"error":{"message":"`) {
			t.Fatalf("%s %.2000q: %d %s, %v", path, body, w.Code, w.Body, err)
		}
		statuses[fmt.Sprint(strings.Split(path, "/")[2], " ", w.Code)]++
		return said.ID
	}
	const formKind = "multipart/form-data; boundary=b"
	kept := 0
	clear := func() { // once all batches have ended
		for _, b := range k.get("o1", "/v1/batches?limit=100")["data"].([]any) {
			k.ended("o1", b.(map[string]any)["id"].(string))
		}
		for _, f := range k.get("o1", "/v1/files")["data"].([]any) {
			send("DELETE", "/v1/files/"+f.(map[string]any)["id"].(string), "", "")
		}
		kept = 0
	}
	for i := range *mutatedBodies {
		switch i % 4 {
		case 0, 1:
			if id := send("POST", "/v1/files", formKind, uploads.Mutate(forms[pick.IntN(len(forms))])); id != "" {
				file, kept = id, kept+1
			}
		case 2:
			body := strings.ReplaceAll(batches[pick.IntN(len(batches))], "ID", file)
			if pick.IntN(2) == 0 {
				body = makes.Mutate(body)
			}
			if id := send("POST", "/v1/batches", "application/json", body); id != "" {
				batch = id
			}
		case 3:
			send("POST", "/v1/batches/"+batch+"/cancel", "application/json", makes.Mutate(batches[0]))
		}
		if kept >= 50 {
			clear()
		}
	}
	clear()
	k.nothingLeft(0)
	if left := k.service.space.all; left != 0 {
		t.Errorf("%d bytes of no file are counted", left)
	}
	t.Log(statuses)
	for _, of := range []string{"files 200", "files 400", "batches 200", "batches 400"} {
		if statuses[of] < *mutatedBodies/100 {
			t.Errorf("%s: %d times", of, statuses[of])
		}
	}
}
