package roles

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// loadSlowly notes 20 GB, one a second, and returns what the log and the screen show.
func loadSlowly(t *testing.T, seconds int, screen *bytes.Buffer) (*Vitals, []observer.LoggedEntry) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	v := NewVitals("cpu-0", true, zap.New(core))
	now := time.Now()
	v.now = func() time.Time { return now }
	if screen != nil {
		v.screen = screen
	}
	for i := range seconds + 1 {
		v.Loading("m", int64(i)*1e9, 20e9)
		now = now.Add(time.Second)
	}
	v.endLoading()
	return v, logs.All()
}

func TestLoadingLines(t *testing.T) {
	v, lines := loadSlowly(t, 19, nil)
	if len(lines) != 4 { // after 2, 7, 12 and 17 s
		t.Fatalf("%d lines, want 4", len(lines))
	}
	fields := lines[1].ContextMap()
	if fields["model"] != "m" || fields["read"] != "7.0 GB" || fields["of"] != "20.0 GB" || fields["rate"] != "1.0 GB/s" || fields["left"] != 13*time.Second {
		t.Errorf("after 7 s: %v", fields)
	}
	if s := v.State(); s.Loaded != 20e9 || s.ToLoad != 20e9 {
		t.Errorf("in the end the scheduler hears of %d of %d bytes", s.Loaded, s.ToLoad)
	}
	if _, lines := loadSlowly(t, 1, nil); len(lines) != 0 {
		t.Errorf("a quick load is told: %v", lines)
	}
}

func TestLoadingBar(t *testing.T) {
	var screen bytes.Buffer
	if _, lines := loadSlowly(t, 19, &screen); len(lines) != 0 {
		t.Errorf("lines beside the bar: %v", lines)
	}
	if text := screen.String(); !strings.Contains(text, "loading") || !strings.Contains(text, "%") {
		t.Errorf("the terminal shows %q", text)
	}
	screen.Reset()
	if loadSlowly(t, 1, &screen); screen.Len() != 0 {
		t.Errorf("a quick load draws %q", screen.String())
	}
}

// TestLoadsFollowEachOther: a second model, and the same one loaded again, are told of from their own beginnings.
func TestLoadsFollowEachOther(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	v := NewVitals("cpu-0", true, zap.New(core))
	now := time.Now()
	v.now = func() time.Time { return now }
	for _, model := range []string{"a", "b", "b"} {
		for i := range 3 { // each reads all within a second after the quiet time
			v.Loading(model, int64(i+1)*1e9, 3e9)
			now = now.Add(1100 * time.Millisecond)
		}
	}
	var told []any
	for _, line := range logs.All() {
		told = append(told, line.ContextMap()["model"], line.ContextMap()["rate"])
	}
	if want := []any{"a", "0.9 GB/s", "b", "0.9 GB/s", "b", "0.9 GB/s"}; !reflect.DeepEqual(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}
