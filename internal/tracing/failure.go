package tracing

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/status"
)

// maxReason bounds the bytes of a collector's words that are logged.
const maxReason = 300

// redactError is an error of the exporter in words, without the values of headers, which a collector may repeat.
func (s *Settings) redactError(err error) string {
	text := err.Error()
	if of, ok := status.FromError(err); ok {
		text = fmt.Sprintf("%s: %s", of.Code(), of.Message())
	}
	for _, value := range s.headers {
		for _, word := range append(strings.Fields(value), value) {
			if len(word) >= 4 {
				text = strings.ReplaceAll(text, word, "***")
			}
		}
	}
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// exporterError is such an error of what was to be done.
func (s *Settings) exporterError(what string, err error) error {
	return errors.New(what + ": " + s.redactError(err))
}
