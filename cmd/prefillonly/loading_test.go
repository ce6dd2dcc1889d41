package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// loadSlowly notes 20 GB, one a second, and returns what the log and the screen show.
func loadSlowly(t *testing.T, seconds int, screen *bytes.Buffer) (*vitals, []observer.LoggedEntry) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	v := &vitals{}
	now := time.Now()
	l := newLoading(v, zap.New(core))
	l.screen, l.start, l.now = nil, now, func() time.Time { return now }
	if screen != nil {
		l.screen = screen
	}
	for i := 1; i <= seconds; i++ {
		now = now.Add(time.Second)
		l.note(int64(i)*1e9, 20e9)
	}
	l.end()
	return v, logs.All()
}

func TestLoadingLines(t *testing.T) {
	v, lines := loadSlowly(t, 19, nil)
	if len(lines) != 4 { // after 2, 7, 12 and 17 s
		t.Fatalf("%d lines, want 4", len(lines))
	}
	fields := lines[1].ContextMap()
	if fields["read"] != "7.0 GB" || fields["of"] != "20.0 GB" || fields["rate"] != "1.0 GB/s" || fields["left"] != 13*time.Second {
		t.Errorf("after 7 s: %v", fields)
	}
	if s := v.state(); s.Loaded != 20e9 || s.ToLoad != 20e9 {
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
