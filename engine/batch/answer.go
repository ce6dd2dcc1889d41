package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// Reply is what the server says to a line's request.
type Reply struct {
	Status     int
	RequestID  string
	Body       []byte
	RetryAfter time.Duration // that the server asks for; 0: it does not
	NoRetry    bool          // the server says that another try would fail too
}

// statusOK is the HTTP status of an answer.
const statusOK = 200

// OK says that the request was answered, not refused.
func (r *Reply) OK() bool { return r.Status == statusOK }

// What a line waits until it is sent again, and how often one is that met a fault.
const (
	leastWait = 100 * time.Millisecond
	mostWait  = 10 * time.Second
	maxFaults = 3
)

// Again says whether a line is to be sent again after a reply, and when; faults are those of its replies so far that asked for no
// patience. A server that has no room or no device now is asked until it has: a batch has time.
func (r *Reply) Again(tries, faults int) (wait time.Duration, again bool) {
	wait = min(leastWait<<min(tries, 10), mostWait)
	if r.RetryAfter > 0 {
		return min(max(wait, r.RetryAfter), mostWait), true
	}
	return wait, r.Fault() && faults < maxFaults
}

// Fault says that the server failed, and asks for no patience.
func (r *Reply) Fault() bool { return r.Status >= 500 && !r.NoRetry && r.RetryAfter == 0 }

// answer is a line of an answer file. The fields that Scan reads come first.
type answer struct {
	ID       string    `json:"id"`
	CustomID string    `json:"custom_id"`
	Response *response `json:"response"`
	Error    *failure  `json:"error"`
}

type response struct {
	Status    int             `json:"status_code"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Answer is the line of an answer file that holds a reply.
func (l *Line) Answer(r *Reply) []byte {
	body := json.RawMessage(r.Body)
	if !json.Valid(body) {
		body, _ = json.Marshal(string(r.Body)) // strings alone
	}
	return l.encode(answer{Response: &response{r.Status, r.RequestID, body}})
}

// Unanswered is the line of an answer file that says why there is no reply.
func (l *Line) Unanswered(code, message string) []byte {
	return l.encode(answer{Error: &failure{code, message}})
}

func (l *Line) encode(a answer) []byte {
	a.ID, a.CustomID = l.ID, l.CustomID
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(a) // of strings and valid JSON, into memory
	return out.Bytes()
}

// Answered are the lines that have an answer.
type Answered map[Key]Outcome

// Outcome is what an answer file says of a line.
type Outcome struct {
	OK bool
	of string // Line.ID
}

// Errors of Scan.
var (
	ErrForeign = errors.New("the file does not hold answers to a batch")
	ErrTwice   = errors.New("the file answers a line twice")
)

// Scan adds the answers of a file to done, and returns how many bytes they take: what follows is half an answer,
// which a process that died left, and is to be cut off.
func Scan(in io.Reader, done Answered) (whole int64, err error) {
	r := bufio.NewReaderSize(in, headBytes)
	for {
		head, size, ended, err := readHead(r)
		if err != nil && err != io.EOF {
			return whole, err
		}
		if !ended {
			return whole, nil
		}
		id, customID, ok, fit := parseHead(head)
		if !fit {
			if whole == 0 {
				return 0, ErrForeign
			}
			return whole, nil
		}
		key := keyOf(customID)
		if _, twice := done[key]; twice {
			return whole, ErrTwice
		}
		done[key] = Outcome{ok, id}
		whole += size
	}
}

// headBytes hold an answer up to its status.
const headBytes = 16 << 10

// readHead reads a line and returns its beginning; ended says that it has an end.
func readHead(r *bufio.Reader) (head []byte, size int64, ended bool, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		if size == 0 {
			head = bytes.Clone(piece)
		}
		size += int64(len(piece))
		if err != bufio.ErrBufferFull {
			return head, size, err == nil, err
		}
	}
}

// parseHead reads what an answer begins with, in the order in which Answer writes it.
func parseHead(head []byte) (id, customID string, ok, fit bool) {
	d := json.NewDecoder(bytes.NewReader(head))
	token := func() json.Token {
		t, _ := d.Token() // the end is no token that is asked for
		return t
	}
	is := func(want json.Token) bool { return token() == want }
	if !is(json.Delim('{')) || !is("id") {
		return
	}
	id, _ = token().(string)
	if !is("custom_id") {
		return
	}
	customID, _ = token().(string)
	if id == "" || customID == "" || !is("response") {
		return
	}
	switch token() {
	case nil: // null
		return id, customID, false, true
	case json.Delim('{'):
		if !is("status_code") {
			return
		}
		status, number := token().(float64)
		return id, customID, status == statusOK, number
	}
	return
}
