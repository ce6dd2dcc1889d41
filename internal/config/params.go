package config

import (
	"strings"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/scheduler"
	"github.com/prefillonly/prefillonly/scheduler/stages"
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
		Help:  "directory of a Hugging Face checkpoint, its name in the hub (org/name or org/name@revision, downloaded unless it is in the local cache), a GGUF file (of several parts, the first), or a network's .onnx file; default: the built-in demo model",
		field: func(c *Config) any { return &c.Model },
	}, {
		Name: "revision", Group: GroupModel, Roles: Frontend | Executor | Video | Lines, Value: "REVISION",
		Help:  "branch, tag or commit of a model of the Hugging Face hub; default: main",
		field: func(c *Config) any { return &c.Revision },
	}, {
		Name: "models", Group: GroupModel, Roles: Frontend | Executor | Video | Lines, Common: true, Value: "LIST",
		Help:  "list of several models, in the --config file a list of maps with path, name, keep and other keys (--help=models)",
		field: func(c *Config) any { return (*modelList)(&c.Models) },
	}, {
		Name: "served-model-name", Group: GroupModel, Roles: Frontend | Executor | Video | Lines, Common: true, Value: "NAME,...",
		Help:  "names of the model in requests; default: the model as given",
		field: func(c *Config) any { return &c.ServedModelName },
	}, {
		Name: "max-model-len", Group: GroupModel, Roles: Executor, Common: true, Value: "TOKENS",
		Help:  "longest prompt and answer together, e.g. 32768 or 32K; default: the model's own limit",
		field: func(c *Config) any { return &c.MaxModelLen },
	}, {
		Name: "chat-template", Group: GroupModel, Roles: Frontend | Lines, Value: "FILE",
		Help:  "file of a Jinja chat template that replaces the checkpoint's own",
		field: func(c *Config) any { return &c.ChatTemplate },
	}, {
		Name: "hf-overrides", Group: GroupModel, Roles: Frontend | Lines, Value: "MAP",
		Help:  `keys that config.json lacks, as in vLLM: {"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true} makes a Qwen3 a reranker`,
		field: func(c *Config) any { return &c.Overrides },
	}, {
		Name: "lora-modules", Group: GroupModel, Roles: Frontend | Executor | Lines, Value: "NAME=DIR,...",
		Help:  "adapters of the model's weights (LoRA), by the names that requests give as their model, as in vLLM; each a directory where peft has saved one; on a CPU device alone",
		field: func(c *Config) any { return &c.LoRAModules },
	},

	{
		Name: "host", Group: GroupHTTP, Roles: Supervisor | Frontend | Probe, Common: true, Value: "ADDRESS",
		Help:  "address to listen on; 0.0.0.0 is every IPv4 address",
		field: func(c *Config) any { return &c.Host },
	}, {
		Name: "port", Group: GroupHTTP, Roles: Supervisor | Frontend | Probe, Common: true, Value: "PORT",
		Help:  "TCP port to listen on; 0 takes a free one",
		field: func(c *Config) any { return &c.Port },
	}, {
		Name: "api-server-count", Group: GroupHTTP, Roles: Supervisor, Common: true, Value: "N",
		Help:  "number of frontend processes that share the port; one that dies loses its own requests, and the others serve on",
		field: func(c *Config) any { return &c.Frontends },
	}, {
		Name: "api-key", Group: GroupHTTP, Roles: Frontend | Batches, Secret: true, Value: "KEY,...",
		Help:  "API keys; each request must carry one of them (environment and YAML only)",
		field: func(c *Config) any { return &c.APIKey },
	}, {
		Name: "api-key-file", Group: GroupHTTP, Roles: Frontend | Batches, Common: true, Value: "FILE",
		Help:  "file of API keys, one a line; \"KEY GROUP\" shares the prefix cache within the group, a trailing @admin allows loading and unloading models, # begins a comment",
		field: func(c *Config) any { return &c.APIKeyFile },
	}, {
		Name: "prefix-cache-isolation", Group: GroupHTTP, Roles: Frontend | Batches, Value: "BY", Choices: []string{apikey.IsolateKeys, apikey.IsolateNone},
		Help:  "who shares the prefix cache: key: requests of one key or group, so that cached_tokens and response times tell nothing about others' prompts; none: all requests; cache_salt in a request divides it further",
		field: func(c *Config) any { return &c.CacheIsolation },
	}, {
		Name: "max-body-size", Group: GroupHTTP, Roles: Frontend | Lines, Value: "SIZE",
		Help:  "largest request body",
		field: func(c *Config) any { return &c.MaxBody },
	}, {
		Name: "max-open-jobs", Group: GroupHTTP, Roles: Frontend | Lines, Value: "N",
		Help:  "most prompts served at a time, three quarters of them for one key; more get 429",
		field: func(c *Config) any { return &c.MaxOpenJobs },
	}, {
		Name: "max-logprobs-per-request", Group: GroupHTTP, Roles: Frontend | Lines, Value: "N",
		Help:  "most log-probabilities a request may ask for (answers x positions x (1 + top_logprobs), about 16 bytes each); more get 400, and others get 429 while open requests hold four times as many",
		field: func(c *Config) any { return &c.MaxLogprobs },
	}, {
		Name: "default-max-tokens", Group: GroupHTTP, Roles: Frontend | Lines, Value: "N",
		Help:  "max_tokens of a chat request that gives none (of a completion it is OpenAI's 16); 0 is the rest of the context",
		field: func(c *Config) any { return &c.DefaultMaxTokens },
	}, {
		Name: "enable-auto-tool-choice", Group: GroupHTTP, Roles: Frontend | Lines,
		Help:  "accept tool_choice auto: calls are found in the answer by --tool-call-parser; without it such requests get 400, as in vLLM",
		field: func(c *Config) any { return &c.AutoToolChoice },
	}, {
		Name: "enable-per-request-metrics", Group: GroupHTTP, Roles: Frontend,
		Help:  "add the times of a request to its answer, as vLLM does: metrics beside usage in completions and chats of one prompt and one choice, and in the last event of streams with include_usage",
		field: func(c *Config) any { return &c.RequestMetrics },
	}, {
		Name: "tool-call-parser", Group: GroupHTTP, Roles: Frontend | Lines, Value: "PARSER",
		Help:  "how the models write tool calls, by vLLM's names: hermes (also Qwen's: <tool_call>{...}</tool_call>), llama3_json ({...}; {...}), mistral ([TOOL_CALLS]...)",
		field: func(c *Config) any { return &c.ToolCallParser },
	}, {
		Name: "allowed-origins", Group: GroupHTTP, Roles: Frontend, Value: "ORIGIN,...",
		Help:  "origins whose pages may use the server from a browser (https://app.example.com, or * for all); default: none, since any page could otherwise use a local server without keys",
		field: func(c *Config) any { return &c.AllowedOrigins },
	}, {
		Name: "allowed-methods", Group: GroupHTTP, Roles: Frontend, Value: "METHOD,...",
		Help:  "HTTP methods that pages of allowed-origins may use",
		field: func(c *Config) any { return &c.AllowedMethods },
	}, {
		Name: "allowed-headers", Group: GroupHTTP, Roles: Frontend, Value: "NAME,...",
		Help:  "request headers that pages of allowed-origins may send",
		field: func(c *Config) any { return &c.AllowedHeaders },
	}, {
		Name: "allow-credentials", Group: GroupHTTP, Roles: Frontend,
		Help:  "let pages of allowed-origins send cookies and other credentials; allowed-origins must then list each origin",
		field: func(c *Config) any { return &c.AllowCredentials },
	}, {
		Name: "server-dev-mode", Group: GroupHTTP, Roles: Frontend,
		Help:  "also serve POST /reset_prefix_cache, with which any key empties the prefix cache for all; for benchmarks",
		field: func(c *Config) any { return &c.DevMode },
	}, {
		Name: "access-log", Group: GroupHTTP, Roles: Frontend,
		Help:  "log a line for each request; probes of /health and /ready, and requests of an open /ui, only at log-level debug",
		field: func(c *Config) any { return &c.AccessLog },
	}, {
		Name: "drain-timeout", Group: GroupHTTP, Roles: Supervisor | Frontend, Common: true, Value: "TIME",
		Help:  "time for open requests to finish after SIGTERM; those still open then get 503",
		field: func(c *Config) any { return &c.DrainTimeout },
	}, {
		Name: "drain-grace-period", Group: GroupHTTP, Roles: Supervisor | Frontend, Value: "TIME",
		Help:  "time after SIGTERM during which new requests get 503 with Retry-After and /ready says 503, before connections are refused; as long as your load balancer takes to notice",
		field: func(c *Config) any { return &c.DrainGrace },
	}, {
		Name: "max-connections", Group: GroupHTTP, Roles: Frontend, Value: "N",
		Help:  "most open connections, counting each HTTP/2 stream beyond a connection's first; idle connections make room for new ones, and more get 503",
		field: func(c *Config) any { return &c.MaxConnections },
	}, {
		Name: "max-connections-per-address", Group: GroupHTTP, Roles: Frontend, Value: "N",
		Help:  "most open connections of one IPv4 address or IPv6 /64 network; more get 429. Behind a proxy, which is one address, set it to max-connections",
		field: func(c *Config) any { return &c.MaxConnectionsPerAddress },
	},

	{
		Name: "device", Group: GroupDevice, Roles: Supervisor | Frontend | Executor, Common: true, Value: "DEVICE",
		Help:  "cpu; cuda for an executor on every GPU; cuda:0,2 for these GPUs, by nvidia-smi's number or by UUID, among those in CUDA_VISIBLE_DEVICES; or null, which answers at once without a model, to measure everything else",
		field: func(c *Config) any { return &c.Device },
	}, {
		Name: "tensor-parallel-size", Group: GroupDevice, Roles: Supervisor | Executor, Common: true, Value: "N",
		Help:  "GPUs that share one copy of a model: cuda:0,1,2,3 with 2 makes two executors of two GPUs, and kv-cache-memory-bytes is of each GPU; on cpu, parts that the threads are divided among",
		field: func(c *Config) any { return &c.Ranks },
	}, {
		Name: "threads", Group: GroupDevice, Roles: Executor, Common: true, Value: "N",
		Help:  "threads that compute; 0 is one for each core this process may use",
		field: func(c *Config) any { return &c.Threads },
	}, {
		Name: "memory", Group: GroupDevice, Roles: Executor, Common: true, Value: "SIZE",
		Help:  "most memory of all models together, prefix caches included, e.g. 16GiB: host memory on the processor, memory of each GPU elsewhere; 0 is all there is",
		field: func(c *Config) any { return &c.Memory },
	}, {
		Name: "gpu-memory-utilization", Group: GroupDevice, Roles: Executor, Common: true, Value: "SHARE",
		Help:  "share of a GPU's memory for weights, working set and prefix cache together",
		field: func(c *Config) any { return &c.GPUMemory },
	}, {
		Name: "attention-backend", Group: GroupDevice, Roles: Executor, Value: "NAME", Choices: []string{"auto", "cudnn", "flashinfer"},
		Help:  "attention on a GPU: cudnn (9.19 or newer, found by the loader as libcudnn.so.9), flashinfer (built in), or auto: cudnn where it is installed and covers the model, else flashinfer",
		field: func(c *Config) any { return &c.Attention },
	}, {
		Name: "kv-cache-memory-bytes", Group: GroupDevice, Roles: Executor, Common: true, Value: "SIZE",
		Help:  "memory of the prefix cache, e.g. 4GiB; 0 takes kv-cache-memory-share of what is free, on a GPU all that gpu-memory-utilization leaves",
		field: func(c *Config) any { return &c.CacheBytes },
	}, {
		Name: "kv-cache-memory-share", Group: GroupDevice, Roles: Executor, Value: "SHARE",
		Help:  "share of the memory beside weights and working set for the prefix cache",
		field: func(c *Config) any { return &c.CacheShare },
	}, {
		Name: "kv-offloading-size", Group: GroupDevice, Roles: Executor, Value: "GIB",
		Help:  "GiB of pinned host memory per GPU for prefixes evicted from the GPU's prefix cache; they are loaded back where that is faster than computing them",
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
		Help:  "file of the cost model of this model on this device; default: the one stored by `prefillonly profile`, if any",
		field: func(c *Config) any { return &c.Profile },
	},

	{
		Name: "scheduling-policy", Group: GroupScheduling, Roles: Scheduler, Common: true, Value: "POLICY", Choices: scheduler.Policies(),
		Help:  "order of waiting jobs: " + strings.Join(scheduler.Policies(), ", "),
		field: func(c *Config) any { return &c.Scheduler.Policy },
	}, {
		Name: "fairness", Group: GroupScheduling, Roles: Scheduler, Common: true, Value: "TOKENS",
		Help:  "cache-miss tokens that a second of waiting outweighs, under srjf-calibrated and srpt: a prompt of n tokens is overtaken by none that comes n/TOKENS seconds later; at the executor's tokens/s the order is that of arrival",
		field: func(c *Config) any { return &c.Scheduler.Fairness },
	}, {
		Name: "user-fairness", Group: GroupScheduling, Roles: Scheduler,
		Help:  "age a user's jobs as if they had come no faster than they can run",
		field: func(c *Config) any { return &c.Scheduler.UserFairness },
	}, {
		Name: "routing", Group: GroupScheduling, Roles: Scheduler, Value: "ROUTING", Choices: []string{scheduler.RoutePrefix, scheduler.RouteUser, scheduler.RouteLoad},
		Help:  "how a job's executor is chosen: prefix (longest cached prefix against load), user or load",
		field: func(c *Config) any { return &c.Scheduler.Routing },
	}, {
		Name: "enable-prefix-caching", Group: GroupScheduling, Roles: Scheduler,
		Help:  "keep and reuse the keys and values of prompts' prefixes",
		field: func(c *Config) any { return &c.Scheduler.PrefixCaching },
	}, {
		Name: "full-kv", Group: GroupScheduling, Roles: Scheduler,
		Help:  "hold KV pages for a whole prompt while it runs, as engines that do not discard suffixes do; for comparisons",
		field: func(c *Config) any { return &c.Scheduler.FullKV },
	}, {
		Name: "eviction", Group: GroupScheduling, Roles: Scheduler, Value: "EVICTION", Choices: []string{"reuse", "lru"},
		Help:  "what leaves a full prefix cache first: reuse (blocks that were not read again) or lru",
		field: func(c *Config) any { return (*string)(&c.Scheduler.Eviction) },
	}, {
		Name: "max-num-queued-reqs", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "most waiting requests; more get 429",
		field: func(c *Config) any { return &c.Scheduler.MaxQueuedJobs },
	}, {
		Name: "max-num-queued-tokens", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "most prompt tokens of waiting requests; more get 429",
		field: func(c *Config) any { return &c.Scheduler.MaxQueuedTokens },
	}, {
		Name: "max-queue-time", Group: GroupScheduling, Roles: Scheduler, Value: "TIME",
		Help:  "longest predicted wait; requests beyond it get 429; 0: no limit",
		field: func(c *Config) any { return &c.Scheduler.MaxQueueTime },
	}, {
		Name: "max-pass-items", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "most jobs packed into one pass",
		field: func(c *Config) any { return &c.Scheduler.MaxPassItems },
	}, {
		Name: "max-paused-passes", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "most paused passes an executor may hold, under srpt",
		field: func(c *Config) any { return &c.Scheduler.MaxPaused },
	}, {
		Name: "cpu-slots", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "CPU stages (JSON, tokens, pictures, frames, grammars) that all processes of the host run at a time; 0 is one less than there are processors, and two at least",
		field: func(c *Config) any { return &c.CPU.Slots },
	}, {
		Name: "cpu-slots-external", Group: GroupScheduling, Roles: Scheduler, Value: "N",
		Help:  "most of these slots that other programs hold by /v1/stages/slot: half of them, or a number; 0: none",
		field: func(c *Config) any { return (*slotsOrHalf)(&c.CPU.Outside) },
	}, {
		Name: "cpu-policy", Group: GroupScheduling, Roles: Scheduler, Value: "POLICY", Choices: stages.PolicyNames(),
		Help:  "order of CPU stages that wait: on-time (as many as can be within their deadlines, what is due first first), edf (what is due first), slo (edf without what is past its deadline by --lost-cause-threshold) or fifo",
		field: func(c *Config) any { return (*string)(&c.CPU.Policy) },
	}, {
		Name: "lost-cause-threshold", Group: GroupScheduling, Roles: Scheduler, Value: "TIME",
		Help:  "how long past its deadline a CPU stage still runs, under --cpu-policy slo",
		field: func(c *Config) any { return &c.CPU.LostCause },
	}, {
		Name: "cpu-express", Group: GroupScheduling, Roles: Scheduler,
		Help:  "let a CPU stage of under 20 ms hold one slot more than there are",
		field: func(c *Config) any { return &c.CPU.Express },
	}, {
		Name: "peer-timeout", Group: GroupScheduling, Roles: Scheduler, Value: "TIME",
		Help:  "silence after which a process counts as dead",
		field: func(c *Config) any { return &c.Scheduler.PeerTimeout },
	}, {
		Name: "unavailable-after", Group: GroupScheduling, Roles: Scheduler, Value: "TIME",
		Help:  "time a job waits for an executor of its model to appear",
		field: func(c *Config) any { return &c.Scheduler.UnavailableAfter },
	}, {
		Name: "kv-events-config", Group: GroupScheduling, Roles: Scheduler, Value: "JSON",
		Help:  "publish what the prefix caches hold, for routers, in vLLM's format and with its keys: enable_kv_cache_events, endpoint (default tcp://127.0.0.1:5557), replay_endpoint, topic ({model} in it is the model's name), buffer_steps, hwm; events hold the prompts' token ids, readable by whoever reaches the endpoint",
		field: func(c *Config) any { return &c.KVEvents },
	},

	{
		Name: "scheduler-endpoint", Group: GroupProcesses, Roles: Serve, Value: "ENDPOINT",
		Help:  "where the scheduler listens: ipc:///path or tcp://host:port; default: a private ipc endpoint made by serve",
		field: func(c *Config) any { return &c.Endpoint },
	}, {
		Name: "runtime-dir", Group: GroupProcesses, Roles: Supervisor | Frontend | Executor | Video | Lines, Value: "DIR",
		Help:  "directory of sockets and the unpacked demo model, used by one server at a time; default: a new private one",
		field: func(c *Config) any { return &c.RuntimeDir },
	}, {
		Name: "video-files", Group: GroupProcesses, Roles: Video, Common: true, Value: "DIR",
		Help:  "directory of the files that /v1/video/streams may play; without it no file is played",
		field: func(c *Config) any { return &c.VideoFiles },
	}, {
		Name: "video-sources", Group: GroupProcesses, Roles: Video, Value: "LIST",
		Help:  "hosts, addresses and networks of cameras for /v1/video/streams, separated by commas, such as 10.1.0.0/16,door.example; default: any. Link-local (169.254.0.0/16, fe80::/10), multicast and cloud metadata addresses need an admin's key, or their own network in the list",
		field: func(c *Config) any { return &c.VideoSources },
	}, {
		Name: "video-state", Group: GroupProcesses, Roles: Video, Value: "DIR",
		Help:  "directory of the declared streams and their last results, from which a restarted server goes on; default: below runtime-dir",
		field: func(c *Config) any { return &c.VideoState },
	}, {
		Name: "video-memory", Group: GroupProcesses, Roles: Video, Value: "SIZE",
		Help:  "most memory of video streams: decoders, by their sources' size, references and tracks, and data that cameras send; one key may take three quarters of what the others leave; streams beyond it are refused with both figures",
		field: func(c *Config) any { return &c.VideoMemory },
	}, {
		Name: "batch-dir", Group: GroupProcesses, Roles: Frontend | Batches, Common: true, Value: "DIR",
		Help:  "private directory of the files, batches and answers of /v1/files and /v1/batches; without it they are not served",
		field: func(c *Config) any { return &c.BatchDir },
	}, {
		Name: "batch-space", Group: GroupProcesses, Roles: Batches, Value: "SIZE",
		Help:  "most bytes of all files and answers in batch-dir",
		field: func(c *Config) any { return &c.BatchSpace },
	}, {
		Name: "batch-space-per-key", Group: GroupProcesses, Roles: Batches, Value: "SIZE",
		Help:  "most bytes of files and answers in batch-dir for one API key, or one group of keys",
		field: func(c *Config) any { return &c.BatchSpaceEach },
	}, {
		Name: "hang-timeout", Group: GroupProcesses, Roles: Supervisor | Lines, Value: "TIME",
		Help:  "time without a sign of life after which a process is killed and started again, at least 3s; ten times as long for an executor that computes or reads; 0 never kills",
		field: func(c *Config) any { return &c.HangTimeout },
	}, {
		Name: "tensor-memory", Group: GroupProcesses, Roles: Frontend | Executor | Video | Lines, Value: "SIZE",
		Help:  "most memory of open requests' tensors in each frontend, and of outputs not yet fetched in each executor; requests beyond it get 429",
		field: func(c *Config) any { return &c.TensorMemory },
	}, {
		Name: "tensor-address", Group: GroupProcesses, Roles: Frontend | Executor | Video | Lines, Value: "HOST[:PORT]",
		Help:  "address where other hosts fetch this process's tensors over TLS, with a tcp scheduler-endpoint; default: the address from which it reaches the scheduler, and a free port",
		field: func(c *Config) any { return &c.TensorAddress },
	}, {
		Name: "curve-key-file", Group: GroupProcesses, Roles: Frontend | Scheduler | Executor | Video | Lines, Value: "FILE",
		Help:  "file of this process's key pair, made by `prefillonly keygen`; needed for tcp",
		field: func(c *Config) any { return &c.CurveKeyFile },
	}, {
		Name: "curve-peers-file", Group: GroupProcesses, Roles: Frontend | Scheduler | Executor | Video | Lines, Value: "FILE",
		Help:  "file of public keys: the scheduler's, or in the scheduler those of all processes that may connect",
		field: func(c *Config) any { return &c.CurvePeersFile },
	}, {
		Name: "allow-unauthenticated-tcp", Group: GroupProcesses, Roles: Frontend | Scheduler | Executor | Video | Lines,
		Help:  "join the processes of one machine over loopback tcp without keys: every user of the machine can then read all prompts and forge answers",
		field: func(c *Config) any { return &c.UnauthenticatedTCP },
	},

	{
		Name: "log-level", Group: GroupLogs, Roles: Serve, Value: "LEVEL", Choices: []string{"debug", "info", "warn", "error"},
		Help:  "least severe messages that are logged: debug, info, warn or error",
		field: func(c *Config) any { return &c.LogLevel },
	}, {
		Name: "log-format", Group: GroupLogs, Roles: Serve, Value: "FORMAT", Choices: []string{"auto", "console", "json", "journal"},
		Help:  "form of the log: console, json, journal, or auto: console on a terminal, journal under journald, else json",
		field: func(c *Config) any { return &c.LogFormat },
	}, {
		Name: "debug-port", Group: GroupLogs, Roles: Serve, Value: "PORT",
		Help:  "port of pprof on 127.0.0.1: the first frontend uses it, the scheduler the next one, executors from two higher on, further frontends behind them; 0 is off",
		field: func(c *Config) any { return &c.DebugPort },
	}, {
		Name: "otlp-traces-endpoint", Group: GroupLogs, Roles: Frontend, Value: "URL",
		Help:  "OpenTelemetry collector that gets a trace of every request: http://host:4317 or grpc://host:4317 for gRPC, http://host:4318/v1/traces for HTTP, https:// for TLS; OpenTelemetry's variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and others) apply",
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
