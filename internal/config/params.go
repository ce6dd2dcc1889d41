package config

import (
	"strings"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/scheduler"
)

// Role is a set of the processes that read a parameter.
type Role uint16

// The roles.
const (
	Frontend Role = 1 << iota
	Scheduler
	Executor
	Supervisor // serve itself; it also has the parameters of the three above
	Probe      // healthcheck
	Video
	Lines   // what sends the lines of batch files
	Batches // the process of /v1/files and /v1/batches
	Serve   = Frontend | Scheduler | Executor | Supervisor | Video | Lines | Batches
)

// Group gathers parameters in the help.
type Group string

// The groups, in the order of the help.
const (
	GroupModel      Group = "Model"
	GroupHTTP       Group = "HTTP"
	GroupScheduling Group = "Scheduling"
	GroupDevice     Group = "Device and memory"
	GroupProcesses  Group = "Processes"
	GroupLogs       Group = "Logs"
)

// Groups lists the groups in the order of the help.
var Groups = []Group{GroupModel, GroupHTTP, GroupDevice, GroupScheduling, GroupProcesses, GroupLogs}

// Param is one parameter: --name, PREFILLONLY_NAME and the YAML key name.
type Param struct {
	Name    string
	Group   Group
	Roles   Role
	Common  bool     // shown by plain --help
	Secret  bool     // never accepted on the command line, never shown
	Value   string   // what the help calls the value; empty for a switch
	Choices []string // the values there are; nil for any
	Help    string

	field func(*Config) any // the pointer to set; see value.Set for the types
}

// Env is the name of the parameter's environment variable.
func (p *Param) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))
}

// Default is the value of a user who says nothing, as a flag takes it.
func (p *Param) Default() string {
	standard := Default()
	return showValue(p.field(&standard))
}

// Title is the parameter as it is given: its flag and what the value is called, or its variable where it has no
// flag.
func (p *Param) Title() string {
	switch {
	case p.Secret:
		return p.Env()
	case p.Value != "":
		return "--" + p.Name + " " + p.Value
	case p.Default() == "true":
		return "--[no-]" + p.Name
	}
	return "--" + p.Name
}

const envPrefix = "PREFILLONLY_"

// Params is the table.
var Params = []Param{
	{
		Name: "model", Group: GroupModel, Roles: Frontend | Executor | Video | Lines, Common: true, Value: "DIR|ID|FILE",
		Help:  "directory of a Hugging Face checkpoint, the name of one in the hub (org/name or org/name@revision), which is downloaded unless it is in the local Hugging Face cache, or a network's .onnx file; without it the built-in demo model is served",
		field: func(c *Config) any { return &c.Model },
	}, {
		Name: "revision", Group: GroupModel, Roles: Frontend | Executor | Video | Lines, Value: "REVISION",
		Help:  "branch, tag or commit of a model that is given by its name in the hub; default: main",
		field: func(c *Config) any { return &c.Revision },
	}, {
		Name: "models", Group: GroupModel, Roles: Frontend | Executor | Video | Lines, Common: true, Value: "LIST",
		Help:  "several models in place of one, in the file a list of maps: path, name, keep and others (--help=models)",
		field: func(c *Config) any { return (*modelList)(&c.Models) },
	}, {
		Name: "served-model-name", Group: GroupModel, Roles: Frontend | Executor | Video | Lines, Common: true, Value: "NAME,...",
		Help:  "names that requests may give; default: the model as given",
		field: func(c *Config) any { return &c.ServedModelName },
	}, {
		Name: "max-model-len", Group: GroupModel, Roles: Executor, Common: true, Value: "TOKENS",
		Help:  "longest prompt plus answer, e.g. 32768 or 32K; default: the model's own limit",
		field: func(c *Config) any { return &c.MaxModelLen },
	}, {
		Name: "chat-template", Group: GroupModel, Roles: Frontend | Lines, Value: "FILE",
		Help:  "Jinja chat template to use in place of the checkpoint's own",
		field: func(c *Config) any { return &c.ChatTemplate },
	}, {
		Name: "hf-overrides", Group: GroupModel, Roles: Frontend | Lines, Value: "MAP",
		Help:  `keys that config.json lacks, as vLLM has them: {"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true} makes a Qwen3 a reranker`,
		field: func(c *Config) any { return &c.Overrides },
	},

	{
		Name: "host", Group: GroupHTTP, Roles: Supervisor | Frontend | Probe, Common: true, Value: "ADDRESS",
		Help:  "address to listen on; 0.0.0.0 is all of IPv4",
		field: func(c *Config) any { return &c.Host },
	}, {
		Name: "port", Group: GroupHTTP, Roles: Supervisor | Frontend | Probe, Common: true, Value: "PORT",
		Help:  "TCP port to listen on; 0 takes a free one",
		field: func(c *Config) any { return &c.Port },
	}, {
		Name: "api-server-count", Group: GroupHTTP, Roles: Supervisor, Common: true, Value: "N",
		Help:  "frontends that share the port, each a process of its own: one that dies takes its own requests with it, and the others serve on",
		field: func(c *Config) any { return &c.Frontends },
	}, {
		Name: "api-key", Group: GroupHTTP, Roles: Frontend | Batches, Secret: true, Value: "KEY,...",
		Help:  "keys of which requests must carry one (environment and YAML only)",
		field: func(c *Config) any { return &c.APIKey },
	}, {
		Name: "api-key-file", Group: GroupHTTP, Roles: Frontend | Batches, Common: true, Value: "FILE",
		Help:  "file with one such key a line; \"KEY GROUP\" puts it in a group of keys that share the prefix cache, and @admin behind it lets it load and unload models; # begins a comment",
		field: func(c *Config) any { return &c.APIKeyFile },
	}, {
		Name: "prefix-cache-isolation", Group: GroupHTTP, Roles: Frontend | Batches, Value: "BY", Choices: []string{apikey.IsolateKeys, apikey.IsolateNone},
		Help:  "key: requests find what those of the same key, or its group, left in the prefix cache, so that nobody learns from cached_tokens or from the time taken what others asked; none: all share it. A request's cache_salt divides it further",
		field: func(c *Config) any { return &c.CacheIsolation },
	}, {
		Name: "max-body-size", Group: GroupHTTP, Roles: Frontend | Lines, Value: "SIZE",
		Help:  "largest request body",
		field: func(c *Config) any { return &c.MaxBody },
	}, {
		Name: "max-open-jobs", Group: GroupHTTP, Roles: Frontend | Lines, Value: "N",
		Help:  "prompts being served at a time, of which one key may have three quarters; beyond it requests get 429",
		field: func(c *Config) any { return &c.MaxOpenJobs },
	}, {
		Name: "max-logprobs-per-request", Group: GroupHTTP, Roles: Frontend | Lines, Value: "N",
		Help:  "log-probabilities that one request may ask for, at some 16 bytes each: answers x positions x (1 + the likeliest); beyond it a request gets 400, and while open ones hold four times as many others get 429",
		field: func(c *Config) any { return &c.MaxLogprobs },
	}, {
		Name: "default-max-tokens", Group: GroupHTTP, Roles: Frontend | Lines, Value: "N",
		Help:  "most tokens of a chat answer whose request gives no max_tokens (of a completion it is OpenAI's 16); 0 is as many as the context holds",
		field: func(c *Config) any { return &c.DefaultMaxTokens },
	}, {
		Name: "enable-auto-tool-choice", Group: GroupHTTP, Roles: Frontend | Lines,
		Help:  "serve chat requests with tools whose tool_choice is auto: calls are found in the answer by --tool-call-parser; without it they get 400, as vLLM has it",
		field: func(c *Config) any { return &c.AutoToolChoice },
	}, {
		Name: "enable-per-request-metrics", Group: GroupHTTP, Roles: Frontend,
		Help:  "tell the times of a request in its answer, as vLLM has it: metrics beside usage, of completions and chats of one prompt and one choice, and in the last event of streams with include_usage",
		field: func(c *Config) any { return &c.RequestMetrics },
	}, {
		Name: "tool-call-parser", Group: GroupHTTP, Roles: Frontend | Lines, Value: "PARSER",
		Help:  "how the models write calls, by vLLM's names: hermes (also Qwen's: <tool_call>{...}</tool_call>), llama3_json ({...}; {...}), mistral ([TOOL_CALLS]...)",
		field: func(c *Config) any { return &c.ToolCallParser },
	}, {
		Name: "allowed-origins", Group: GroupHTTP, Roles: Frontend, Value: "ORIGIN,...",
		Help:  "pages of these origins (https://app.example.com, or * for all) may use the server from a browser; default: none, as any page could otherwise use a server without keys that its reader runs",
		field: func(c *Config) any { return &c.AllowedOrigins },
	}, {
		Name: "allowed-methods", Group: GroupHTTP, Roles: Frontend, Value: "METHOD,...",
		Help:  "methods that these pages may use",
		field: func(c *Config) any { return &c.AllowedMethods },
	}, {
		Name: "allowed-headers", Group: GroupHTTP, Roles: Frontend, Value: "NAME,...",
		Help:  "headers that these pages may send",
		field: func(c *Config) any { return &c.AllowedHeaders },
	}, {
		Name: "allow-credentials", Group: GroupHTTP, Roles: Frontend,
		Help:  "let these pages send cookies and the like; allowed-origins must then list them",
		field: func(c *Config) any { return &c.AllowCredentials },
	}, {
		Name: "server-dev-mode", Group: GroupHTTP, Roles: Frontend,
		Help:  "serve POST /reset_prefix_cache too, with which whoever has a key empties the prefix cache for all, as benchmarks want",
		field: func(c *Config) any { return &c.DevMode },
	}, {
		Name: "access-log", Group: GroupHTTP, Roles: Frontend,
		Help:  "log one line a request; probes of /health and /ready, and what an open /ui asks, only at log-level debug",
		field: func(c *Config) any { return &c.AccessLog },
	}, {
		Name: "drain-timeout", Group: GroupHTTP, Roles: Supervisor | Frontend, Common: true, Value: "TIME",
		Help:  "how long open requests may take to finish after SIGTERM; what is open then gets 503",
		field: func(c *Config) any { return &c.DrainTimeout },
	}, {
		Name: "drain-grace-period", Group: GroupHTTP, Roles: Supervisor | Frontend, Value: "TIME",
		Help:  "how long after SIGTERM new requests are still told 503 with Retry-After, while /ready says 503; then connections are refused. As long as your load balancer takes to notice",
		field: func(c *Config) any { return &c.DrainGrace },
	}, {
		Name: "max-connections", Group: GroupHTTP, Roles: Frontend, Value: "N",
		Help:  "open connections, of which idle ones make room for new ones, each stream of HTTP/2 beyond its connection's first counting as one; beyond it new ones get 503",
		field: func(c *Config) any { return &c.MaxConnections },
	}, {
		Name: "max-connections-per-address", Group: GroupHTTP, Roles: Frontend, Value: "N",
		Help:  "likewise of one IPv4 address or IPv6 /64 network, with 429; behind a proxy, which is one address, raise it to max-connections",
		field: func(c *Config) any { return &c.MaxConnectionsPerAddress },
	},

	{
		Name: "device", Group: GroupDevice, Roles: Supervisor | Frontend | Executor, Common: true, Value: "DEVICE",
		Help:  "cpu; cuda for an executor on every GPU, or cuda:0,2 for these, in the order of nvidia-smi, by number or UUID, of those that CUDA_VISIBLE_DEVICES leaves; or null, which answers at once without a model, to measure everything else",
		field: func(c *Config) any { return &c.Device },
	}, {
		Name: "tensor-parallel-size", Group: GroupDevice, Roles: Supervisor | Executor, Common: true, Value: "N",
		Help:  "GPUs that share one copy of a model that does not fit one: cuda:0,1,2,3 with 2 is two executors of two GPUs; with cpu, parts that the threads are divided among; kv-cache-memory-bytes is of each",
		field: func(c *Config) any { return &c.Ranks },
	}, {
		Name: "threads", Group: GroupDevice, Roles: Executor, Common: true, Value: "N",
		Help:  "threads that compute; 0 is one for each core this process may use",
		field: func(c *Config) any { return &c.Threads },
	}, {
		Name: "memory", Group: GroupDevice, Roles: Executor, Common: true, Value: "SIZE",
		Help:  "memory that all models may take together, prefix caches included: of the host on the processor, of each GPU elsewhere, e.g. 16GiB; 0 is what there is",
		field: func(c *Config) any { return &c.Memory },
	}, {
		Name: "gpu-memory-utilization", Group: GroupDevice, Roles: Executor, Common: true, Value: "SHARE",
		Help:  "share of a GPU's memory that weights, working set and prefix cache take together",
		field: func(c *Config) any { return &c.GPUMemory },
	}, {
		Name: "attention-backend", Group: GroupDevice, Roles: Executor, Value: "NAME", Choices: []string{"auto", "cudnn", "flashinfer"},
		Help:  "attention on a GPU: cudnn (9.19 or newer, where the loader finds libcudnn.so.9), flashinfer (built in), or auto: cudnn where it is there and covers the model, else flashinfer",
		field: func(c *Config) any { return &c.Attention },
	}, {
		Name: "kv-cache-memory-bytes", Group: GroupDevice, Roles: Executor, Common: true, Value: "SIZE",
		Help:  "memory of the prefix cache, e.g. 4GiB; 0 takes kv-cache-memory-share of what is free, on a GPU all that gpu-memory-utilization leaves",
		field: func(c *Config) any { return &c.CacheBytes },
	}, {
		Name: "kv-cache-memory-share", Group: GroupDevice, Roles: Executor, Value: "SHARE",
		Help:  "share of the memory left by weights and working set that the prefix cache takes",
		field: func(c *Config) any { return &c.CacheShare },
	}, {
		Name: "kv-offloading-size", Group: GroupDevice, Roles: Executor, Value: "GIB",
		Help:  "GiB of pinned host memory, for each GPU, that keeps prefixes which the GPU's prefix cache has to evict; what is found there is loaded where that is faster than computing it",
		field: func(c *Config) any { return &c.Offloading },
	}, {
		Name: "block-size", Group: GroupDevice, Roles: Executor, Value: "TOKENS",
		Help:  "tokens in a block of the prefix cache, a multiple of 16",
		field: func(c *Config) any { return &c.BlockSize },
	}, {
		Name: "prefill-chunk", Group: GroupDevice, Roles: Executor, Value: "TOKENS",
		Help:  "rows that go through a layer's matrices at a time; 0 is 512 on the processor and 4096 on a GPU",
		field: func(c *Config) any { return &c.PrefillChunk },
	}, {
		Name: "profile", Group: GroupDevice, Roles: Executor, Value: "FILE",
		Help:  "cost model of this model on this device; default: the one that `prefillonly profile` has stored, if any",
		field: func(c *Config) any { return &c.Profile },
	},

	{
		Name: "scheduling-policy", Group: GroupScheduling, Roles: Scheduler, Common: true, Value: "POLICY", Choices: scheduler.Policies(),
		Help:  strings.Join(scheduler.Policies(), ", "),
		field: func(c *Config) any { return &c.Scheduler.Policy },
	}, {
		Name: "fairness", Group: GroupScheduling, Roles: Scheduler, Common: true, Value: "TOKENS",
		Help:  "cache-miss tokens that a second of waiting outweighs, under srjf-calibrated and srpt: a prompt of n tokens is overtaken by none that comes n/TOKENS seconds later; near the executor's tokens a second the order is that of arrival",
		field: func(c *Config) any { return &c.Scheduler.Fairness },
	}, {
		Name: "user-fairness", Group: GroupScheduling, Roles: Scheduler,
		Help:  "age a user's jobs as if they had come no faster than they can be run",
		field: func(c *Config) any { return &c.Scheduler.UserFairness },
	}, {
		Name: "routing", Group: GroupScheduling, Roles: Scheduler, Value: "ROUTING", Choices: []string{scheduler.RoutePrefix, scheduler.RouteUser, scheduler.RouteLoad},
		Help:  "how a job finds its executor: prefix (longest cached prefix against load), user, load",
		field: func(c *Config) any { return &c.Scheduler.Routing },
	}, {
		Name: "enable-prefix-caching", Group: GroupScheduling, Roles: Scheduler,
		Help:  "keep and reuse the keys and values of prefixes",
		field: func(c *Config) any { return &c.Scheduler.PrefixCaching },
	}, {
		Name: "full-kv", Group: GroupScheduling, Roles: Scheduler,
		Help:  "hold pages for a whole prompt while it runs, as engines that do not discard suffixes must; for comparisons",
		field: func(c *Config) any { return &c.Scheduler.FullKV },
	}, {
		Name: "eviction", Group: GroupScheduling, Roles: Scheduler, Value: "EVICTION", Choices: []string{"reuse", "lru"},
		Help:  "what leaves a full prefix cache first: reuse (what nobody has read again) or lru",
		field: func(c *Config) any { return (*string)(&c.Scheduler.Eviction) },
	}, {
		Name: "max-num-queued-reqs", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "waiting requests beyond which more get 429",
		field: func(c *Config) any { return &c.Scheduler.MaxQueuedJobs },
	}, {
		Name: "max-num-queued-tokens", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "prompt tokens of waiting requests beyond which more get 429",
		field: func(c *Config) any { return &c.Scheduler.MaxQueuedTokens },
	}, {
		Name: "max-queue-time", Group: GroupScheduling, Roles: Scheduler, Value: "TIME",
		Help:  "predicted wait beyond which requests get 429; 0 is none",
		field: func(c *Config) any { return &c.Scheduler.MaxQueueTime },
	}, {
		Name: "max-pass-items", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "jobs packed into one pass",
		field: func(c *Config) any { return &c.Scheduler.MaxPassItems },
	}, {
		Name: "max-paused-passes", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "paused passes an executor may hold, under srpt",
		field: func(c *Config) any { return &c.Scheduler.MaxPaused },
	}, {
		Name: "peer-timeout", Group: GroupScheduling, Roles: Scheduler, Value: "TIME",
		Help:  "silence after which a process counts as dead",
		field: func(c *Config) any { return &c.Scheduler.PeerTimeout },
	}, {
		Name: "unavailable-after", Group: GroupScheduling, Roles: Scheduler, Value: "TIME",
		Help:  "how long a job waits for an executor of its model to appear",
		field: func(c *Config) any { return &c.Scheduler.UnavailableAfter },
	}, {
		Name: "kv-events-config", Group: GroupScheduling, Roles: Scheduler, Value: "JSON",
		Help:  "tell routers what the prefix caches hold, in vLLM's format and with its keys: enable_kv_cache_events, endpoint, replay_endpoint, topic ({model} in it is the model's name), buffer_steps, hwm; without an endpoint they are at tcp://127.0.0.1:5557; they hold the prompts' token ids, and whoever reaches the endpoint can read them",
		field: func(c *Config) any { return &c.KVEvents },
	},

	{
		Name: "scheduler-endpoint", Group: GroupProcesses, Roles: Serve, Value: "ENDPOINT",
		Help:  "where the scheduler listens: ipc:///path or tcp://host:port; serve makes a private ipc one",
		field: func(c *Config) any { return &c.Endpoint },
	}, {
		Name: "runtime-dir", Group: GroupProcesses, Roles: Supervisor | Frontend | Executor | Video | Lines, Value: "DIR",
		Help:  "directory for sockets and the unpacked demo model, which one server has at a time; default: a new private one",
		field: func(c *Config) any { return &c.RuntimeDir },
	}, {
		Name: "video-files", Group: GroupProcesses, Roles: Video, Common: true, Value: "DIR",
		Help:  "directory of the files that streams of /v1/video/streams may play; without it they play none",
		field: func(c *Config) any { return &c.VideoFiles },
	}, {
		Name: "video-sources", Group: GroupProcesses, Roles: Video, Value: "LIST",
		Help:  "hosts, addresses and networks, separated by commas, at which cameras of /v1/video/streams may be, such as 10.1.0.0/16,door.example; default: everywhere; addresses of the link (169.254.0.0/16, fe80::/10), of multicast and of clouds' metadata only for streams that an admin's key declares, or if their own network is listed",
		field: func(c *Config) any { return &c.VideoSources },
	}, {
		Name: "video-state", Group: GroupProcesses, Roles: Video, Value: "DIR",
		Help:  "directory that keeps the declared streams and their last results, so that a server that is started again goes on with them; default: below runtime-dir",
		field: func(c *Config) any { return &c.VideoState },
	}, {
		Name: "video-memory", Group: GroupProcesses, Roles: Video, Value: "SIZE",
		Help:  "memory that video streams may take: decoders by the size, references and tracks of their sources, and what cameras send as it comes; a key may have three quarters of what the others leave, and beyond it streams are refused with both figures",
		field: func(c *Config) any { return &c.VideoMemory },
	}, {
		Name: "batch-dir", Group: GroupProcesses, Roles: Frontend | Batches, Common: true, Value: "DIR",
		Help:  "private directory where /v1/files and /v1/batches keep files, batches and answers; without it they are not served",
		field: func(c *Config) any { return &c.BatchDir },
	}, {
		Name: "batch-space", Group: GroupProcesses, Roles: Batches, Value: "SIZE",
		Help:  "bytes that all files and answers in batch-dir may have",
		field: func(c *Config) any { return &c.BatchSpace },
	}, {
		Name: "batch-space-per-key", Group: GroupProcesses, Roles: Batches, Value: "SIZE",
		Help:  "bytes that the files and answers of one API key, or of one group of keys, may have there",
		field: func(c *Config) any { return &c.BatchSpaceEach },
	}, {
		Name: "hang-timeout", Group: GroupProcesses, Roles: Supervisor | Lines, Value: "TIME",
		Help:  "how long a process may give no sign of life before it is killed and started again, at least 3s; an executor is given ten times as long while it computes or reads; 0 is for ever",
		field: func(c *Config) any { return &c.HangTimeout },
	}, {
		Name: "tensor-memory", Group: GroupProcesses, Roles: Frontend | Executor | Video | Lines, Value: "SIZE",
		Help:  "memory that tensors of open requests may take in each frontend, and outputs that are not fetched yet in each executor; it is taken as they come, and beyond it requests get 429",
		field: func(c *Config) any { return &c.TensorMemory },
	}, {
		Name: "tensor-address", Group: GroupProcesses, Roles: Frontend | Executor | Video | Lines, Value: "HOST[:PORT]",
		Help:  "with a tcp scheduler-endpoint: where other hosts fetch this process's tensors, over TLS with a key of its own; default: the address from which it reaches the scheduler, and a free port",
		field: func(c *Config) any { return &c.TensorAddress },
	}, {
		Name: "curve-key-file", Group: GroupProcesses, Roles: Frontend | Scheduler | Executor | Video | Lines, Value: "FILE",
		Help:  "this process's keys, made by `prefillonly keygen`; needed for tcp",
		field: func(c *Config) any { return &c.CurveKeyFile },
	}, {
		Name: "curve-peers-file", Group: GroupProcesses, Roles: Frontend | Scheduler | Executor | Video | Lines, Value: "FILE",
		Help:  "public keys of the other side: of the scheduler, or for it of all that may connect",
		field: func(c *Config) any { return &c.CurvePeersFile },
	}, {
		Name: "allow-unauthenticated-tcp", Group: GroupProcesses, Roles: Frontend | Scheduler | Executor | Video | Lines,
		Help:  "join frontends, scheduler and executors of one machine over loopback tcp without keys: every user of the machine can then read all prompts and forge answers",
		field: func(c *Config) any { return &c.UnauthenticatedTCP },
	},

	{
		Name: "log-level", Group: GroupLogs, Roles: Serve, Value: "LEVEL", Choices: []string{"debug", "info", "warn", "error"},
		Help:  "debug, info, warn or error",
		field: func(c *Config) any { return &c.LogLevel },
	}, {
		Name: "log-format", Group: GroupLogs, Roles: Serve, Value: "FORMAT", Choices: []string{"auto", "console", "json", "journal"},
		Help:  "console, json, journal, or auto: console on a terminal, journal under journald, else json",
		field: func(c *Config) any { return &c.LogFormat },
	}, {
		Name: "debug-port", Group: GroupLogs, Roles: Serve, Value: "PORT",
		Help:  "serve pprof on 127.0.0.1: the first frontend here, the scheduler one port higher, executors from two higher on, more frontends behind them; 0 is off",
		field: func(c *Config) any { return &c.DebugPort },
	}, {
		Name: "otlp-traces-endpoint", Group: GroupLogs, Roles: Frontend, Value: "URL",
		Help:  "send a trace of every request to an OpenTelemetry collector: http://host:4317 or grpc://host:4317 by gRPC, http://host:4318/v1/traces by HTTP, https:// encrypted; OpenTelemetry's variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and others) say how",
		field: func(c *Config) any { return &c.OTLPTraces },
	},
}

// Find returns the parameter of that name, or nil.
func Find(name string) *Param {
	for i := range Params {
		if Params[i].Name == name {
			return &Params[i]
		}
	}
	return nil
}
