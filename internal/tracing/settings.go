package tracing

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The protocols of OTLP, by their names in OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// Settings say where spans go, which requests have some, and how many may wait.
type Settings struct {
	endpoint *url.URL // with the path of traces, where the protocol is HTTP
	protocol string
	insecure bool
	headers  map[string]string
	sampler  sdktrace.Sampler
	delay    time.Duration // between two exports of what is less than a batch
	timeout  time.Duration // of an export, tries included
	queue    int           // spans that may wait
	batch    int           // spans of one export, but for those of a single request
	resource *resource.Resource
}

// Process is what the spans of a process have in common.
type Process struct{ Service, Version, Instance string }

// Read makes Settings of an endpoint and of the variables of OpenTelemetry, as getenv gives them; nil where no endpoint
// is named, or they turn tracing off. Its errors name the variable and the next step, and hold no value that may be
// secret.
func Read(endpoint string, getenv func(string) string, p Process) (*Settings, error) {
	env := environment(getenv)
	if env.isTrue("OTEL_SDK_DISABLED") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	s := &Settings{}
	if err := s.setEndpoint(endpoint, env); err != nil || s.endpoint == nil {
		return nil, err
	}
	for _, read := range []func(environment) error{s.readHeaders, s.readSampler, s.readBatches} {
		if err := read(env); err != nil {
			return nil, err
		}
	}
	return s, s.readResource(p)
}

// environment gives variables by name.
type environment func(string) string

func (e environment) isTrue(name string) bool { return strings.EqualFold(e(name), "true") }

// exporterVariable is a variable of the exporter: that of traces, or that of all signals.
func (e environment) exporterVariable(name string) (value, variable string) {
	for _, variable = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value = e(variable); value != "" {
			return value, variable
		}
	}
	return "", variable
}

// number is a variable that holds a whole number above 0.
func (e environment) number(name string, standard int) (int, error) {
	text := e(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<24 {
		return 0, fmt.Errorf("%s is %.40q; it must be a whole number from 1 to %d", name, text, 1<<24)
	}
	return n, nil
}

// setEndpoint finds the endpoint and how it is spoken to. HTTP is what an endpoint with a path, or the port of OTLP over HTTP, speaks;
// else it is gRPC, as vLLM has it.
func (s *Settings) setEndpoint(flag string, env environment) error {
	text, from, base := flag, "otlp-traces-endpoint", false
	if text == "" {
		text, from = env.exporterVariable("ENDPOINT")
		base = from == "OTEL_EXPORTER_OTLP_ENDPOINT"
	}
	if text == "" {
		return nil
	}
	u, err := ParseEndpoint(text)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	protocol, variable := env.exporterVariable("PROTOCOL")
	switch protocol {
	case "":
		s.protocol = protocolGRPC
		if u.Path != "" || u.Port() == "4318" {
			s.protocol = protocolHTTP
		}
	case protocolGRPC, protocolHTTP:
		s.protocol = protocol
	default:
		return fmt.Errorf("%s is %.40q; it must be %s or %s", variable, protocol, protocolGRPC, protocolHTTP)
	}
	if s.protocol == protocolHTTP && (base || u.Path == "") {
		u = u.JoinPath("v1", "traces")
	}
	insecure, _ := env.exporterVariable("INSECURE")
	s.insecure = u.Scheme == "http" || u.Scheme != "https" && strings.EqualFold(insecure, "true")
	s.endpoint = u
	return nil
}

// ParseEndpoint reads http://host:port[/path], https://..., grpc://host:port or host:port. An endpoint has no
// credentials: it can be seen among a process's arguments.
func ParseEndpoint(text string) (*url.URL, error) {
	const form = "it must be http://HOST:PORT, https://HOST:PORT, grpc://HOST:PORT or HOST:PORT, for HTTP with a path such as /v1/traces"
	if !strings.Contains(text, "://") {
		text = "grpc://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the endpoint is not a URL: %s", form)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the endpoint has a user, a password or a query; give credentials in OTEL_EXPORTER_OTLP_HEADERS")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "grpc" || u.Hostname() == "":
		return nil, fmt.Errorf("the endpoint is %.100q; %s", text, form)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// readHeaders reads name=value,name=value with values in percent-encoding.
func (s *Settings) readHeaders(env environment) error {
	text, variable := env.exporterVariable("HEADERS")
	s.headers = map[string]string{}
	for i, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || err != nil || !isToken(name) || strings.ContainsFunc(value, isControl) {
			return fmt.Errorf("%s: invalid item %d: want name=value, with the value in percent-encoding", variable, i+1)
		}
		s.headers[strings.ToLower(name)] = value
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// isToken says that a text is a name of a header of HTTP and gRPC.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	})
}

// readSampler finds which requests have spans, by the names of OTEL_TRACES_SAMPLER.
func (s *Settings) readSampler(env environment) error {
	name := env("OTEL_TRACES_SAMPLER")
	root, parent := strings.CutPrefix(name, "parentbased_")
	var sampler sdktrace.Sampler
	switch root {
	case "", "always_on":
		sampler = sdktrace.AlwaysSample()
	case "always_off":
		sampler = sdktrace.NeverSample()
	case "traceidratio":
		share := 1.0
		if text := env("OTEL_TRACES_SAMPLER_ARG"); text != "" {
			var err error
			if share, err = strconv.ParseFloat(text, 64); err != nil || !(share >= 0 && share <= 1) {
				return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %.40q; it must be a number from 0 to 1", text)
			}
		}
		sampler = sdktrace.TraceIDRatioBased(share)
	default:
		return fmt.Errorf("OTEL_TRACES_SAMPLER is %.40q; it must be always_on, always_off or traceidratio, or one of these behind parentbased_", name)
	}
	if s.sampler = sampler; parent || name == "" {
		s.sampler = sdktrace.ParentBased(sampler)
	}
	return nil
}

func (s *Settings) readBatches(env environment) error {
	var milliseconds [3]int
	for i, v := range []struct {
		name     string
		standard int
	}{{"OTEL_BSP_SCHEDULE_DELAY", 5000}, {"OTEL_BSP_EXPORT_TIMEOUT", 30000}, {"OTEL_EXPORTER_OTLP_TIMEOUT", 10000}} {
		var err error
		if milliseconds[i], err = env.number(v.name, v.standard); err != nil {
			return err
		}
	}
	s.delay = time.Duration(milliseconds[0]) * time.Millisecond
	s.timeout = time.Duration(milliseconds[1]) * time.Millisecond
	var err error
	if s.queue, err = env.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048); err != nil {
		return err
	}
	s.batch, err = env.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)
	s.batch = min(s.batch, s.queue)
	return err
}

// readResource finds what all spans have in common: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before p.
func (s *Settings) readResource(p Process) (err error) {
	s.resource, err = resource.New(context.Background(),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", p.Service), attribute.String("service.version", p.Version), attribute.String("service.instance.id", p.Instance)),
		resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("invalid OTEL_RESOURCE_ATTRIBUTES: want a list of name=value between commas")
	}
	return nil
}
