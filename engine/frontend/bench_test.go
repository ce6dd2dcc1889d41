package frontend

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

const benchBody = `{"model":"demo","prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32],"max_tokens":1,"temperature":0,"logprobs":5}`

// forgetful answers like say, without keeping what it saw.
type forgetful struct {
	*clienttest.Scheduler
}

func (s forgetful) Send(msg wire.Message) error {
	if submit, ok := msg.(*wire.Submit); ok {
		for _, r := range replies(submit, []engine.TokenID{'Y'}) {
			s.Deliver(r)
		}
	}
	return nil
}

func newBench(b *testing.B) *Frontend {
	s := forgetful{clienttest.NewScheduler(nil)}
	f := newFrontendOn(b, Config{}, client.Config{}, s)
	s.Deliver = f.pool.Deliver
	s.Deliver(welcome(1))
	return f
}

// BenchmarkHandler is one request of 32 tokens without a network.
func BenchmarkHandler(b *testing.B) {
	f := newBench(b)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(benchBody))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkServe is requests of 32 tokens over loopback connections that are kept alive, the
// client's work included.
func BenchmarkServe(b *testing.B) {
	f := newBench(b)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: f.Handler()}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	request := head(len(benchBody)) + benchBody
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for pb.Next() {
			if _, err := io.WriteString(conn, request); err != nil {
				b.Error(err)
				return
			}
			response, err := http.ReadResponse(reader, nil)
			if err != nil || response.StatusCode != http.StatusOK {
				b.Error(response, err)
				return
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}
