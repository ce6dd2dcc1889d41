// Package config is the one table of parameters: each row makes a flag, an environment variable, a
// YAML key, a default and its documentation.
package config

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/scheduler"
	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// Config is the value of every parameter; the table in params.go says what each means.
type Config struct {
	Model           string
	Revision        string
	Models          []Model // in place of Model and what is said of it
	ServedModelName []string
	MaxModelLen     Length
	ChatTemplate    string
	Overrides       Overrides
	LoRAModules     LoRAModules

	Host             string
	Port             int
	Frontends        int
	APIKey           []string
	APIKeyFile       string
	CacheIsolation   string
	MaxBody          Bytes
	MaxOpenJobs      int
	AccessLog        bool
	DrainTimeout     time.Duration
	DrainGrace       time.Duration
	DefaultMaxTokens int
	AutoToolChoice   bool
	RequestMetrics   bool
	ToolCallParser   string

	MaxLogprobs              int
	MaxConnections           int
	MaxConnectionsPerAddress int

	AllowedOrigins   []string
	AllowedMethods   []string
	AllowedHeaders   []string
	AllowCredentials bool
	DevMode          bool

	Scheduler scheduler.Config
	KVEvents  KVEvents
	CPU       stages.Parameters // Slots 0: as the host's processors have it

	Device       string
	Ranks        int
	Threads      int
	Memory       Bytes
	GPUMemory    float64
	Attention    string
	CacheBytes   Bytes
	CacheShare   float64
	Offloading   float64 // GiB
	BlockSize    int
	PrefillChunk int
	Profile      string

	Endpoint       string
	RuntimeDir     string
	HangTimeout    time.Duration
	CurveKeyFile   string
	CurvePeersFile string
	TensorMemory   Bytes
	VideoMemory    Bytes
	TensorAddress  string
	VideoFiles     string
	VideoSources   []string
	VideoState     string
	BatchDir       string
	BatchSpace     Bytes
	BatchSpaceEach Bytes

	UnauthenticatedTCP bool

	LogLevel   string
	LogFormat  string
	DebugPort  int
	OTLPTraces string
}

// Default is the configuration of a user who says nothing.
func Default() Config {
	return Config{
		Host:             "127.0.0.1",
		Port:             8000,
		Frontends:        1,
		CacheIsolation:   apikey.IsolateKeys,
		MaxBody:          64 << 20,
		MaxOpenJobs:      65536,
		AccessLog:        true,
		DrainTimeout:     30 * time.Second,
		DrainGrace:       time.Second,
		DefaultMaxTokens: 256,

		MaxLogprobs:              1 << 24,
		MaxConnections:           8192,
		MaxConnectionsPerAddress: 2048,

		AllowedMethods: []string{"*"},
		AllowedHeaders: []string{"*"},

		Scheduler:  scheduler.DefaultConfig(),
		CPU:        stages.Parameters{Policy: stages.OnTime, Express: true, Outside: stages.Half},
		Device:     "cpu",
		Ranks:      1,
		GPUMemory:  0.92,
		Attention:  "auto",
		CacheShare: 0.5,
		BlockSize:  64,

		BatchSpace:     64 << 30,
		BatchSpaceEach: 16 << 30,

		TensorMemory: 1 << 30,
		VideoMemory:  4 << 30,
		HangTimeout:  30 * time.Second,
		LogLevel:     "info",
		LogFormat:    "auto",
	}
}
