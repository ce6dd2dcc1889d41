package telemetry

import (
	"bytes"
	"encoding/json"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestControlCharactersAreEscaped: whatever a message or a field has, no character of C0, C1 or of the directions of writing reaches the
// terminal, and what is JSON stays so.
func TestControlCharactersAreEscaped(t *testing.T) {
	const hostile = "a\x1b[2J\u009b31m\u202eevil\u2066\u061c\u200f\u2028\x7f\x85\xff é 漢"
	const want = `a\u001b[2J\u009b31m\u202eevil\u2066\u061c\u200f\u2028\u007f\ufffd\ufffd é 漢`
	for name, encoder := range map[string]zapcore.Encoder{
		"console": zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig()), "json": zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
	} {
		var out bytes.Buffer
		log := zap.New(zapcore.NewCore(encoder, escaped{zapcore.AddSync(&out)}, zap.InfoLevel))
		log.Info(hostile, zap.String("field", hostile))
		if n := bytes.Count(out.Bytes(), []byte(want)); n != 2 || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
			t.Errorf("%s: %q has %q %d times, want both", name, out.String(), want, n)
		}
		var line map[string]any
		if name == "json" && json.Unmarshal(out.Bytes(), &line) != nil {
			t.Errorf("%q is no JSON", out.String())
		}
	}
	if plain := []byte("as it is\n\tat é"); &escapeControls(plain)[0] != &plain[0] {
		t.Error("a line without such is copied")
	}
}
