package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// answersWithin bounds an answer, and of one without an end its beginning.
const answersWithin = 5 * time.Minute

// client asks what is answered once, and listener what is answered as it comes until a context ends.
var (
	client   = &http.Client{Timeout: answersWithin}
	listener = &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: answersWithin}}
)

// A request that has no answer after hungAfter is hung, and jobs that are open idleWithin after the last one
// are left behind.
const (
	hungAfter  = 2 * time.Minute
	idleWithin = time.Minute
)

// traffic is the clients.
type traffic struct {
	clients  int
	models   int // to ask; 0: the only one
	frames   bool
	seed     uint64
	url      string
	report   *report
	answered atomic.Int64      // requests that went through all processes
	want     map[string]string // contents of answers by body, learned in peace
}

// newTraffic makes the clients, and learns from the server in peace what it answers.
func newTraffic(c config, url string, r *report) (*traffic, error) {
	t := &traffic{clients: c.clients, models: c.languageModels(), frames: c.frames, seed: c.seed, url: url, report: r, want: map[string]string{}}
	random := rand.New(rand.NewPCG(c.seed, 2))
	for i := range kinds {
		k := &kinds[i]
		if k.frame && !c.frames {
			continue
		}
		for range 300 * max(1, t.models) { // enough to meet each body
			body := t.drawBody(k, random)
			if _, known := t.want[body]; known || !k.same {
				continue
			}
			status, answer, err := t.postRequest(context.Background(), client, k, body)
			if err != nil || status != http.StatusOK || !k.whole(answer) {
				return nil, fmt.Errorf("in peace %s got %d %.200s %v", k.name, status, answer, err)
			}
			t.want[body] = content.FindString(answer)
		}
	}
	return t, nil
}

// startClients runs the clients until ctx ends and their last requests have; then the result is closed.
func (t *traffic) startClients(ctx context.Context) <-chan struct{} {
	var group sync.WaitGroup
	for i := range t.clients {
		group.Go(func() { t.runClient(ctx, uint64(i)) })
	}
	over := make(chan struct{})
	go func() { // ends with the clients
		group.Wait()
		close(over)
	}()
	return over
}

// runClient asks one request after another. Half of the clients make a connection for each.
func (t *traffic) runClient(ctx context.Context, i uint64) {
	random := rand.New(rand.NewPCG(t.seed, 10+i))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		k := drawKind(random, t.frames)
		t.askUntilAnswered(client, k, t.drawBody(k, random), random)
	}
}

// drawBody is one of a kind, for any of the models.
func (t *traffic) drawBody(k *kind, random *rand.Rand) string {
	body := k.body(random)
	if t.models == 0 || k.frame {
		return body
	}
	return fmt.Sprintf(`{"model":"%s",%s`, modelName(random.IntN(t.models)), body[1:])
}

// askUntilAnswered asks until the request has its answer: one that is refused for now or loses its connection is asked
// again.
func (t *traffic) askUntilAnswered(client *http.Client, k *kind, body string, random *rand.Rand) {
	begun := time.Now()
	for {
		asked := time.Now()
		outcome, note := t.askOnce(client, k, body, random)
		t.report.addOutcome(k, outcome, note, asked, time.Since(begun))
		switch outcome {
		case lost:
			time.Sleep(10 * time.Millisecond)
		case busy:
			time.Sleep(100 * time.Millisecond)
		case answered:
			if k.path != "/tokenize" { // which needs no process but the frontend
				t.answered.Add(1)
			}
			return
		default:
			return
		}
	}
}

// askOnce asks once and judges the answer.
func (t *traffic) askOnce(client *http.Client, k *kind, body string, random *rand.Rand) (outcome, string) {
	limit := hungAfter
	if k.leave {
		limit = time.Duration(1+random.IntN(20)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	status, answer, err := t.postRequest(ctx, client, k, body)
	switch want, known := t.want[body]; {
	case k.leave && (ctx.Err() != nil || err == nil):
		return left, ""
	case ctx.Err() != nil:
		return hung, err.Error()
	case err != nil && isConnectionEnd(err):
		return lost, err.Error()
	case err != nil:
		return failed, err.Error()
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return busy, fmt.Sprintf("%d %.200s", status, answer)
	case k.status != 0 && status == k.status:
		return refused, ""
	case status != http.StatusOK:
		return failed, fmt.Sprintf("%d %.200s", status, answer)
	case !k.whole(answer) || known && content.FindString(answer) != want:
		return wrong, fmt.Sprintf("%.300s, want %.300s", answer, want)
	}
	return answered, ""
}

func (t *traffic) postRequest(ctx context.Context, client *http.Client, k *kind, body string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+k.path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// isConnectionEnd says that err is what a client sees when the process that holds its connection ends; a body that is still
// sent finds that the client has closed its own end. A port that refuses connections is not that.
func isConnectionEnd(err error) bool {
	var op *net.OpError
	refused := errors.As(err, &op) && op.Op == "dial"
	return !refused && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "connection reset") || strings.Contains(err.Error(), "broken pipe"))
}

// nothingLeft waits until no frontend holds a job and the scheduler runs none.
func (t *traffic) nothingLeft() error {
	var left string
	for deadline := time.Now().Add(idleWithin); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		response, err := client.Get(t.url + "/metrics")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if left = busyLine(string(text)); left == "" {
			return nil
		}
	}
	return fmt.Errorf("%v after the last request: %s", idleWithin, left)
}

// busyLine is the first metric that says that there is work; empty without one.
func busyLine(metrics string) string {
	for line := range strings.Lines(metrics) {
		for _, name := range []string{"prefillonly:open_jobs{", "vllm:num_requests_running{", "vllm:num_requests_waiting{"} {
			if !strings.HasPrefix(line, name) {
				continue
			}
			fields := strings.Fields(line)
			if v, err := strconv.ParseFloat(fields[len(fields)-1], 64); err != nil || v != 0 {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
