// Package telemetry makes the loggers of all processes, so that their lines look alike.
package telemetry

import (
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// priorities are the prefixes by which journald knows levels (sd-daemon(3)).
var priorities = map[zapcore.Level]string{zapcore.DebugLevel: "<7>", zapcore.InfoLevel: "<6>", zapcore.WarnLevel: "<4>", zapcore.ErrorLevel: "<3>"}

// NewLogger logs to stderr from level on. Format is json, console, journal (which has time and level
// itself), or auto: console when stderr is a terminal, journal under journald, json otherwise. Every
// line carries the process's name.
func NewLogger(level, format, process string) (*zap.Logger, error) {
	at, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log-level is %q, want debug, info, warn or error", level)
	}
	if format == "auto" {
		switch {
		case term.IsTerminal(int(os.Stderr.Fd())):
			format = "console"
		case os.Getenv("JOURNAL_STREAM") != "":
			format = "journal"
		default:
			format = "json"
		}
	}
	c := zap.NewProductionEncoderConfig()
	c.TimeKey, c.EncodeTime, c.EncodeDuration = "ts", zapcore.RFC3339NanoTimeEncoder, zapcore.StringDurationEncoder
	var encoder zapcore.Encoder
	switch format {
	case "json":
		encoder = zapcore.NewJSONEncoder(c)
	case "console":
		c.EncodeTime, c.EncodeLevel = zapcore.TimeEncoderOfLayout("15:04:05.000"), zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(c)
	case "journal":
		c.TimeKey = ""
		c.EncodeLevel = func(l zapcore.Level, to zapcore.PrimitiveArrayEncoder) { to.AppendString(priorities[l]) }
		c.ConsoleSeparator = " "
		encoder = zapcore.NewConsoleEncoder(c)
	default:
		return nil, fmt.Errorf("log-format is %q, want auto, console, json or journal", format)
	}
	return zap.New(zapcore.NewCore(encoder, escaped{zapcore.Lock(os.Stderr)}, at)).Named(process), nil
}
