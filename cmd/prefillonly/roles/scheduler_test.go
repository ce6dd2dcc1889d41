package roles

import (
	"strconv"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
)

func freePort(t *testing.T) string {
	t.Helper()
	port, err := cli.UnusedPort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// TestKVEventsStayOnThisMachine: by default; what is wider is asked for and warned about.
func TestKVEventsStayOnThisMachine(t *testing.T) {
	if o := publisherOptions(&config.KVEvents{Enabled: true}); !o.Listen || o.Endpoint != "tcp://127.0.0.1:5557" {
		t.Errorf("by default events are published on %+v", o)
	}
	for endpoint, warned := range map[string]bool{
		"tcp://*:" + freePort(t): true, "ipc://" + t.TempDir() + "/e": false, "tcp://127.0.0.1:" + freePort(t): false,
	} {
		core, logs := observer.New(zap.WarnLevel)
		p, err := openPublisher(&config.KVEvents{Enabled: true, Endpoint: endpoint, BufferSteps: 1, HWM: 1}, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		if got := logs.Len() == 1 && logs.All()[0].ContextMap()["endpoint"] == endpoint; got != warned || !warned && logs.Len() > 0 {
			t.Errorf("%s: warned %v, want %v: %v", endpoint, got, warned, logs.All())
		}
	}
}
