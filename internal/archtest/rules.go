// Package archtest holds the tree to its architecture: who may import whom, what the pure packages
// may use, and how large files and packages are, and how documented. The rules are data; tests check them.
package archtest

// arrows is the import law: a package may import those listed, of this module, in files that are no
// tests. A package that is not listed may import nothing; `go test` names it.
var arrows = map[string][]string{
	// words
	"engine":      {},
	"engine/wire": {"engine"},
	"kernels":     {},

	// pure
	"kvcache":             {"engine"},
	"scheduler":           {"engine", "engine/wire", "kvcache", "scheduler/events", "scheduler/executors", "scheduler/queue"},
	"scheduler/executors": {"engine", "engine/wire", "kvcache", "scheduler/cost", "scheduler/events", "scheduler/queue", "scheduler/residency"},
	"scheduler/events":    {"engine", "kvcache"},
	"scheduler/queue":     {"engine", "kvcache", "scheduler/cost"},
	"scheduler/cost":      {"engine/wire"},
	"scheduler/residency": {"engine", "engine/wire"},
	"scheduler/stages":    {},
	"scheduler/sim":       {"engine", "engine/wire", "scheduler"},
	"scheduler/sim/host":  {"scheduler/stages"},
	"merging":             {},
	"merging/published":   {"merging"},
	"merging/mergingtest": {"engine/dnn/graph", "engine/dnn/onnx", "engine/dnn/onnx/onnxtest", "engine/inspect", "merging"},
	"merging/search":      {"merging"},
	"merging/generations": {"engine/dnn/onnx", "engine/inspect", "internal/dirlock", "merging", "merging/search"},
	"merging/local": {
		"engine", "engine/dnn", "engine/dnn/direct", "engine/dnn/gradient", "engine/dnn/graph", "engine/dnn/onnx", "engine/dnn/ops", "engine/images", "engine/inspect", "kernels", "kernels/cpu", "merging", "videoext", "videoext/accuracy", "videoext/detect", "videoext/media/ffmpeg", "videoext/vision",
	},
	"scheduler/sim/presets": {"engine", "engine/wire", "kvcache", "merging", "merging/published", "scheduler", "scheduler/sim", "scheduler/sim/host", "scheduler/stages"},

	// device
	"kernels/ref":                  {"kernels"},
	"kernels/cpu":                  {"kernels", "kernels/cpu/networks"},
	"kernels/cpu/cputest":          {"kernels/cpu"},
	"kernels/cpu/networks":         {"kernels"},
	"kernels/cpu/onednn":           {},
	"kernels/cpu/raw":              {},
	"kernels/cuda":                 {"kernels", "kernels/cuda/cudnn"},
	"kernels/cuda/cublas":          {},
	"kernels/cuda/cudatest":        {},
	"kernels/cuda/cudnn":           {},
	"kernels/cuda/driver":          {"kernels", "kernels/cuda", "kernels/cuda/cublas", "kernels/cuda/cudnn"},
	"kernels/cuda/nccl":            {"kernels", "kernels/cuda"},
	"kernels/cuda/simt":            {"kernels", "kernels/cuda", "kernels/cuda/cudnn"},
	"kernels/tensorparallel":       {"internal/osthread", "kernels"},
	"kernels/kerneltest":           {"kernels"},
	"kernels/networktest":          {"kernels", "kernels/kerneltest"},
	"engine/blob":                  {"internal/budget"},
	"engine/weights":               {"engine/weights/gguf", "engine/weights/grouped", "internal/jsonerror", "internal/mapped", "internal/regular", "kernels"},
	"engine/weights/catalog":       {"engine/weights", "internal/regular"},
	"engine/weights/gguf":          {"kernels"},
	"engine/weights/gguf/gguftest": {},
	"engine/weights/grouped":       {"kernels"},
	"engine/weights/peft":          {"engine/weights", "internal/jsonerror", "internal/regular", "kernels"},
	"engine/weights/quantize":      {"engine/weights", "internal/jsonerror", "internal/regular", "kernels"},
	"engine/weights/store":         {"engine/weights", "kernels"},
	"engine/dnn/graph":             {"engine"},
	"engine/dnn/vjp":               {"engine", "engine/dnn/graph"},
	"engine/dnn/direct":            {"engine", "engine/dnn", "engine/weights/store", "engine/wire", "kernels"},
	"engine/dnn/golden":            {"engine", "engine/dnn/graph", "engine/dnn/ops"},
	"engine/dnn/onnx":              {"engine", "engine/dnn/graph", "internal/mapped", "internal/regular"},
	"engine/dnn/onnx/onnxtest":     {},
	"engine/dnn/specialize":        {"engine", "engine/dnn/graph", "engine/dnn/ops", "internal/mapped"},
	"engine/dnn/dnntest":           {"engine", "engine/dnn/graph", "engine/dnn/onnx"},
	"engine/dnn/ops":               {"engine", "engine/dnn/graph", "engine/dnn/ops/combine", "engine/dnn/ops/elementwise", "engine/dnn/ops/move", "engine/dnn/ops/op", "engine/dnn/ops/spatial", "engine/dnn/vjp"},
	"engine/dnn/ops/op":            {"engine", "engine/dnn/graph"},
	"engine/dnn/ops/elementwise":   {"engine", "engine/dnn/graph", "engine/dnn/ops/op"},
	"engine/dnn/ops/move":          {"engine", "engine/dnn/graph", "engine/dnn/ops/elementwise", "engine/dnn/ops/op"},
	"engine/dnn/ops/spatial":       {"engine", "engine/dnn/graph", "engine/dnn/ops/op"},
	"engine/dnn/ops/combine":       {"engine", "engine/dnn/graph", "engine/dnn/ops/elementwise", "engine/dnn/ops/op"},
	"engine/dnn/gradient":          {"engine", "engine/dnn/graph", "engine/dnn/ops", "engine/dnn/vjp"},
	"engine/dnn/lower":             {"engine", "engine/dnn/graph", "engine/dnn/ops/spatial", "kernels"},
	"engine/dnn/plan":              {"engine", "engine/dnn/graph", "engine/dnn/lower", "engine/dnn/ops", "kernels"},
	"engine/dnn": {
		"engine", "engine/dnn/gradient", "engine/dnn/graph", "engine/dnn/onnx", "engine/dnn/plan", "engine/dnn/specialize",
		"engine/weights", "engine/weights/store", "engine/wire", "internal/mapped", "kernels",
	},
	"engine/sampling":            {"engine"},
	"engine/model/architecture":  {"engine/weights", "kernels"},
	"engine/model/pace":          {},
	"engine/pooling":             {"engine", "kernels"},
	"engine/model":               {"engine", "engine/model/architecture", "engine/model/pace", "engine/pooling", "engine/sampling", "engine/weights", "engine/weights/peft", "engine/weights/store", "engine/wire", "kernels"},
	"engine/model/calibrate":     {"engine", "engine/model", "engine/model/architecture", "engine/weights", "engine/wire", "internal/jsonerror", "kernels"},
	"engine/encoder":             {"engine", "engine/model/architecture", "engine/model/pace", "engine/pooling", "engine/weights", "engine/weights/store", "engine/wire", "kernels"},
	"engine/encoder/encodertest": {"engine/weights", "kernels"},
	"engine/executor":            {"engine", "engine/wire", "internal/osthread"},
	"engine/executor/runnertest": {"engine", "engine/executor", "engine/wire"},
	"engine/executor/profile":    {"engine", "engine/executor", "engine/wire", "internal/regular"},
	"engine/host": {
		"engine", "engine/dnn", "engine/encoder", "engine/executor", "engine/executor/profile", "engine/model", "engine/weights", "engine/weights/catalog", "engine/weights/peft", "engine/weights/store", "engine/wire", "kernels",
	},
	"engine/inspect": {"merging", "engine/checkpoint", "engine/encoder", "engine/dnn/graph", "engine/dnn/onnx", "engine/dnn/ops", "engine/dnn/specialize", "internal/mapped", "engine/model", "engine/weights", "engine/weights/catalog", "engine/weights/store", "kernels", "kernels/ref"},
	"engine/device": {
		"engine/dnn", "engine/executor", "engine/host", "engine/model", "engine/model/architecture", "engine/weights", "engine/wire", "internal/nvml",
		"kernels", "kernels/cpu", "kernels/cuda", "kernels/cuda/driver", "kernels/cuda/nccl", "kernels/tensorparallel",
	},

	// edge
	"engine/api":                {"engine/api/fields", "internal/jsonerror"},
	"engine/api/fields":         {},
	"engine/api/forms":          {"engine/api", "engine/api/fields"},
	"engine/api/completions":    {"engine/api", "engine/api/fields", "engine/api/forms"},
	"engine/api/openapi":        {"engine/api/fields"},
	"engine/api/pooling":        {"engine/api", "engine/api/fields"},
	"engine/api/decisions":      {"engine/api", "engine/api/fields"},
	"engine/api/recognition":    {"engine/api", "engine/api/fields"},
	"engine/api/transcriptions": {"engine/api", "engine/api/fields"},
	"engine/decision":           {"engine", "engine/api", "engine/api/decisions", "engine/client", "engine/request", "engine/text", "engine/wire"},
	"engine/checkpoint":         {"engine", "engine/pooling", "engine/weights", "engine/weights/gguf", "internal/regular"},
	"engine/grammar":            {"engine"},
	"engine/toolcalls":          {},
	"engine/tokenizer":          {"engine", "engine/grammar", "engine/text", "engine/tokenizer/native", "engine/weights/gguf", "internal/jsonerror", "internal/mapped", "internal/processors", "internal/regular"},
	"engine/tokenizer/native":   {"engine", "engine/grammar"},
	"engine/demo":               {},
	"engine/demo/demotest":      {"engine/demo"},
	"engine/oip":                {"engine"},
	"engine/images":             {"engine"},
	"engine/sounds":             {},
	"engine/speech":             {"engine", "engine/api", "engine/ctc", "engine/pipeline", "engine/request", "engine/sounds", "engine/wire", "internal/budget", "internal/processors"},
	"engine/inference":          {"engine", "engine/api", "engine/client", "engine/images", "engine/oip", "engine/request", "engine/wire", "internal/budget", "internal/processors"},
	"engine/ocr":                {"engine", "engine/api", "engine/ctc", "engine/images", "engine/pipeline", "engine/request", "engine/wire", "internal/budget", "internal/processors"},
	"engine/pipeline":           {"engine", "engine/api", "engine/client", "engine/request", "engine/wire", "internal/budget", "internal/processors"},
	"engine/apikey":             {},
	"engine/ctc":                {},
	"engine/batch":              {},
	"engine/batch/runner":       {"engine/batch"},
	"engine/batch/service":      {"engine", "engine/api", "engine/batch", "engine/batch/runner"},
	"engine/board":              {"engine/client", "engine/metrics", "engine/wire", "internal/processors"},
	"engine/client":             {"engine", "engine/wire", "internal/budget"},
	"engine/client/clienttest":  {"engine", "engine/wire"},
	"engine/detokenize":         {"engine"},
	"engine/text":               {"engine", "engine/api", "engine/detokenize", "engine/grammar"},
	"engine/request":            {"engine", "engine/api", "engine/apikey", "engine/client", "engine/wire", "internal/budget", "internal/processors"},
	"engine/completion":         {"engine", "engine/api", "engine/api/completions", "engine/api/forms", "engine/client", "engine/detokenize", "engine/grammar", "engine/request", "engine/text", "engine/toolcalls", "engine/wire", "internal/budget"},
	"engine/scoring":            {"engine", "engine/api", "engine/api/pooling", "engine/checkpoint", "engine/client", "engine/pooling", "engine/request", "engine/text", "engine/wire", "internal/budget", "internal/processors"},
	"engine/metrics":            {"engine/client", "engine/oip", "engine/request", "engine/wire", "internal/httpserve", "internal/processors", "internal/tracing"},
	"engine/frontend":           {"engine", "engine/api", "engine/api/completions", "engine/api/decisions", "engine/api/fields", "engine/api/forms", "engine/api/openapi", "engine/api/pooling", "engine/api/recognition", "engine/api/transcriptions", "engine/apikey", "engine/board", "engine/checkpoint", "engine/client", "engine/completion", "engine/decision", "engine/frontend/exchange", "engine/frontend/registry", "engine/inference", "engine/metrics", "engine/ocr", "engine/oip", "engine/request", "engine/scoring", "engine/speech", "engine/text", "engine/wire", "internal/budget", "internal/httpserve", "internal/jsonerror", "internal/processors", "internal/tracing"},
	"engine/frontend/exchange":  {"engine", "engine/api", "engine/api/pooling", "engine/apikey", "engine/client", "engine/oip", "engine/request", "internal/budget", "internal/httpserve", "internal/tracing", "internal/processors"},
	"engine/frontend/registry":  {"engine", "engine/api", "engine/checkpoint", "engine/frontend/exchange", "engine/images", "engine/speech", "engine/text"},

	// video
	"videoext/media":          {},
	"videoext/media/ffmpeg":   {"internal/reach", "internal/regular", "videoext/media"},
	"videoext/media/x264":     {"videoext/media"},
	"videoext/media/pipe":     {"videoext/media", "videoext/media/ffmpeg"},
	"videoext":                {"videoext/media"},
	"videoext/accuracy":       {"videoext"},
	"videoext/drift":          {"videoext", "videoext/accuracy"},
	"videoext/oneadapt":       {"videoext/media"},
	"videoext/pipeline":       {"videoext/oneadapt"},
	"videoext/pipeline/casva": {"videoext/oneadapt", "videoext/pipeline"},
	"videoext/pipeline/clips": {
		"videoext", "videoext/methods", "videoext/emulate", "videoext/link", "videoext/media", "videoext/method", "videoext/oneadapt", "videoext/pipeline",
	},
	"videoext/pipeline/features": {
		"engine/dnn", "engine/dnn/direct", "engine/images", "engine/wire", "kernels", "videoext", "videoext/accuracy", "videoext/media", "videoext/oneadapt", "videoext/pipeline", "videoext/vision",
	},
	"videoext/pipeline/lidar":        {"engine/dnn/direct", "videoext/oneadapt", "videoext/pipeline"},
	"videoext/pipeline/pipelinetest": {"videoext/oneadapt", "videoext/pipeline"},
	"videoext/pipeline/audio":        {"engine/dnn", "engine/dnn/direct", "engine/sounds", "kernels", "videoext/oneadapt", "videoext/pipeline"},
	"videoext/method":                {"videoext", "videoext/media", "videoext/oneadapt"},
	"videoext/method/methodtest":     {"videoext", "videoext/method", "videoext/oneadapt", "videoext/link"},
	"videoext/emulate":               {"videoext", "videoext/link", "videoext/media", "videoext/method", "videoext/oneadapt"},
	"videoext/camera":                {"internal/osthread", "videoext", "videoext/media", "videoext/media/ffmpeg", "videoext/method", "videoext/methods", "videoext/motion", "videoext/oneadapt", "videoext/session"},
	"videoext/link":                  {},
	"videoext/session":               {"videoext", "videoext/media", "videoext/method", "videoext/oneadapt"},
	"videoext/motion":                {"videoext", "videoext/media", "videoext/method"},
	"videoext/methods":               {"videoext", "videoext/media", "videoext/method", "videoext/oneadapt"},
	"videoext/vision":                {"videoext"},
	"videoext/scene":                 {"videoext", "videoext/media"},
	"videoext/detect":                {"engine/dnn", "engine/dnn/direct", "engine/images", "kernels", "videoext", "videoext/media", "videoext/oneadapt", "videoext/vision"},
	"videoext/resolve":               {"engine", "engine/dnn", "engine/dnn/direct", "engine/images", "kernels", "videoext/media"},
	"videoext/streams":               {"videoext", "videoext/media", "videoext/method"},
	"videoext/metrics":               {"videoext/method", "videoext/streams"},
	"videoext/jobs": {
		"engine", "engine/client", "engine/images", "engine/wire", "internal/osthread", "internal/processors", "kernels", "videoext", "videoext/media", "videoext/media/ffmpeg", "videoext/metrics",
		"videoext/oneadapt", "videoext/vision",
	},
	"videoext/journal": {"videoext", "videoext/method", "videoext/streams"},
	"videoext/media/ffmpeg/rtsptest": {
		"videoext/media",
	},
	"videoext/source": {"internal/osthread", "internal/processors", "videoext/media", "videoext/media/ffmpeg"},
	"videoext/live":   {"engine", "engine/api", "engine/images", "internal/budget", "internal/jsonerror", "internal/processors", "internal/reach", "videoext", "videoext/drift", "videoext/jobs", "videoext/journal", "videoext/media", "videoext/media/ffmpeg", "videoext/method", "videoext/methods", "videoext/metrics", "videoext/oneadapt", "videoext/session", "videoext/source", "videoext/streams", "videoext/vision"},

	// measuring
	"bench/load":    {"engine", "internal/jsonerror"},
	"bench/figures": {},
	"bench/video":   {"bench/figures", "videoext", "videoext/accuracy", "videoext/methods", "videoext/emulate", "videoext/link", "videoext/method"},
	"bench/pipelines": {
		"bench/figures", "engine/dnn", "engine/dnn/direct", "engine/images", "kernels", "videoext", "videoext/accuracy", "videoext/methods", "videoext/emulate", "videoext/media", "videoext/media/ffmpeg", "videoext/oneadapt", "videoext/pipeline", "videoext/pipeline/audio", "videoext/pipeline/casva", "videoext/pipeline/clips", "videoext/pipeline/features", "videoext/pipeline/lidar", "videoext/scene",
	},
	"bench": {
		"bench/figures", "bench/load", "engine", "engine/wire", "kvcache", "merging", "merging/published", "scheduler", "scheduler/sim", "scheduler/sim/host", "scheduler/sim/presets",
	},
	"bench/gpu": {"engine", "engine/model", "engine/weights", "engine/wire", "kernels", "kernels/cuda", "kernels/cuda/driver"},
	"bench/dnn": {
		"engine", "engine/dnn/gradient", "engine/dnn/graph", "engine/dnn/onnx", "engine/dnn/plan", "engine/dnn/specialize", "kernels", "kernels/cpu",
	},
	"bench/cpu": {"engine", "engine/device", "engine/executor", "engine/host", "engine/wire", "kernels/cpu/onednn"},

	// plumbing
	"internal/archtest":            {},
	"internal/config":              {"engine/apikey", "engine/toolcalls", "internal/reach", "internal/regular", "scheduler", "scheduler/stages"},
	"internal/httpserve":           {},
	"internal/budget":              {},
	"internal/dirlock":             {},
	"internal/hub":                 {"engine/weights", "internal/regular"},
	"internal/hub/hubtest":         {},
	"internal/modellist":           {"engine", "engine/checkpoint", "engine/demo", "engine/dnn", "engine/dnn/onnx", "engine/encoder", "engine/host", "engine/images", "engine/inspect", "engine/model/architecture", "engine/sounds", "engine/speech", "engine/weights", "engine/weights/gguf", "engine/wire", "internal/config", "internal/dirlock", "internal/hub", "internal/regular", "merging/generations", "videoext/vision"},
	"internal/jsonerror":           {},
	"internal/mapped":              {"internal/regular"},
	"internal/mq":                  {"engine/wire"},
	"internal/mutate":              {},
	"internal/nvml":                {},
	"internal/nvml/nvmltest":       {},
	"internal/osthread":            {},
	"internal/procfs":              {},
	"internal/transcripttest":      {},
	"internal/reach":               {},
	"internal/regular":             {},
	"internal/supervise":           {"internal/osthread"},
	"internal/telemetry":           {},
	"internal/tracing":             {},
	"internal/tracing/tracingtest": {},
	"internal/processors":          {"scheduler/stages"},
	"internal/cli":                 {"internal/config"},
	"internal/version":             {},

	// subcommands
	"cmd/prefillonly/bench": {
		"bench", "bench/load", "engine", "internal/cli",
	},
	"cmd/prefillonly/merge": {
		"bench/figures", "engine/dnn", "engine/inspect", "internal/cli", "internal/config", "internal/modellist", "internal/regular", "merging", "merging/generations", "merging/local", "merging/published", "merging/search", "videoext/media", "videoext/vision",
	},
	"cmd/prefillonly/model": {
		"engine", "engine/dnn", "engine/inspect", "engine/model/calibrate", "engine/text", "engine/tokenizer", "engine/weights/catalog", "engine/weights/gguf", "engine/weights/quantize", "internal/cli", "internal/hub", "internal/modellist", "internal/regular", "kernels", "kernels/cpu", "kernels/ref", "videoext/vision",
	},
	"cmd/prefillonly/collectenv": {"cmd/prefillonly/settings", "engine/wire", "internal/config", "internal/nvml", "internal/version", "kernels/cpu"},
	"cmd/prefillonly/roles":      {"cmd/prefillonly/settings", "engine/apikey", "engine/batch", "engine/batch/runner", "engine/batch/service", "engine/blob", "engine/client", "engine/device", "engine/dnn", "engine/executor", "engine/frontend", "engine/frontend/registry", "engine/speech", "engine/text", "engine/tokenizer", "engine/wire", "internal/cli", "internal/config", "internal/dirlock", "internal/httpserve", "internal/modellist", "internal/mq", "internal/nvml", "internal/processors", "internal/reach", "internal/regular", "internal/supervise", "internal/telemetry", "internal/tracing", "internal/version", "merging/generations", "scheduler", "videoext/detect", "videoext/drift", "videoext/jobs", "videoext/live", "videoext/media/ffmpeg"},
	"cmd/prefillonly/settings":   {"internal/cli", "internal/config", "internal/modellist", "internal/telemetry"},
	"cmd/prefillonly/video":      {"bench/pipelines", "bench/video", "engine/images", "internal/cli", "internal/config", "internal/dirlock", "internal/modellist", "kernels/cpu", "videoext", "videoext/detect", "videoext/emulate", "videoext/media", "videoext/media/ffmpeg", "videoext/media/pipe", "videoext/methods", "videoext/motion", "videoext/oneadapt", "videoext/pipeline", "videoext/pipeline/casva", "videoext/resolve", "videoext/scene", "videoext/link", "videoext/vision"},

	// the camera's program
	"cmd/camera": {
		"engine/apikey", "internal/version", "kernels/cpu", "videoext", "videoext/camera", "videoext/detect", "videoext/link", "videoext/media", "videoext/media/ffmpeg", "videoext/media/pipe", "videoext/media/x264", "videoext/vision",
	},

	// the build
	"tools/checkpoint": {"engine/demo", "engine/model", "engine/weights", "engine/weights/store", "kernels", "kernels/ref"},
	"tools/hub":        {"internal/hub/hubtest"},
	"tools/train":      {"videoext", "videoext/oneadapt", "videoext/pipeline/casva", "videoext/pipeline/lidar", "videoext/scene"},
	"tools/testreport": {},

	// tests of several packages together
	"test/field":    {},
	"test/pipeline": {},
	"test/soak":     {"engine/demo/demotest", "engine/dnn/onnx/onnxtest", "internal/procfs"},
	"test/videosoak": {
		"internal/procfs", "videoext", "videoext/media", "videoext/media/ffmpeg", "videoext/media/pipe", "videoext/method", "videoext/methods", "videoext/motion", "videoext/link",
	},
}

// serving are the packages of the programs that serve, and research is what only measures, or repeats the papers' experiments, with
// all below it: nothing that serves may import it.
var (
	serving  = []string{"cmd/prefillonly/roles", "cmd/camera"}
	research = []string{"bench", "scheduler/sim", "videoext/emulate", "videoext/pipeline", "videoext/resolve", "videoext/scene"}
)

// roots may import everything.
var roots = []string{"cmd/prefillonly"}

// externals are imports from outside that few packages may have, and why.
var externals = []struct {
	path    string // the import or the beginning of it
	allowed []string
	why     string
}{
	{"C", []string{"kernels/cpu", "kernels/cpu/networks", "kernels/cpu/onednn", "kernels/cpu/raw", "kernels/cuda/cublas", "kernels/cuda/cudnn", "kernels/cuda/driver", "kernels/cuda/nccl", "kernels/cuda/simt", "engine/tokenizer/native", "videoext/media/ffmpeg", "videoext/media/x264"}, "all else builds with CGO_ENABLED=0"},
	{"videoext/media/x264", []string{"cmd/camera"}, "libx264 is GPL: what links it is a program of its own"},
	{"google.golang.org/protobuf", []string{"engine/dnn/onnx", "engine/dnn/onnx/onnxtest", "internal/tracing", "internal/tracing/tracingtest"}, "protobuf is ONNX's format of files, and OTLP's of spans"},
	{"github.com/pebbe/zmq4", []string{"internal/mq"}, "one package knows how the processes are joined"},
	{"github.com/NVIDIA/go-nvml", []string{"internal/nvml"}, "one package knows the management library"},
	{"github.com/daulet/tokenizers", []string{"engine/tokenizer/native"}, "one package knows the Rust library"},
	{"github.com/spf13/cobra", []string{"cmd/camera", "cmd/prefillonly", "cmd/prefillonly/bench", "cmd/prefillonly/collectenv", "cmd/prefillonly/merge", "cmd/prefillonly/model", "cmd/prefillonly/roles", "cmd/prefillonly/settings", "cmd/prefillonly/video", "internal/cli"}, "commands are in the root, and what they say of themselves beside it"},
	{"github.com/go-chi/chi", []string{"engine/frontend", "engine/frontend/exchange"}, "HTTP is the frontend's"},
	{"go.etcd.io/bbolt", []string{"engine/batch/service"}, "one package keeps a store"},
	{"net/http", []string{"engine/batch/service", "engine/frontend", "engine/frontend/exchange", "engine/metrics", "internal/httpserve", "internal/telemetry", "internal/tracing/tracingtest", "internal/tracing", "bench/load", "cmd/prefillonly", "cmd/prefillonly/roles", "cmd/prefillonly/video", "test/soak", "videoext/camera", "videoext/live", "videoext/metrics", "internal/hub", "internal/hub/hubtest"}, "HTTP stays at the edge, and with what asks it"},
	{"go.opentelemetry.io", []string{"internal/tracing", "internal/tracing/tracingtest"}, "one package knows OpenTelemetry"},
	{"google.golang.org/grpc", []string{"internal/tracing", "internal/tracing/tracingtest"}, "gRPC is OpenTelemetry's"},
	{"github.com/prometheus", []string{"engine/metrics", "videoext/metrics"}, "one package of each process publishes metrics"},
	{"encoding/json", []string{"internal/jsonerror", "engine/api", "engine/api/completions", "engine/api/forms", "engine/batch", "engine/batch/service", "engine/toolcalls", "engine/api/decisions", "engine/api/fields", "engine/api/pooling", "engine/api/recognition", "engine/api/transcriptions", "engine/board", "engine/decision", "engine/checkpoint", "engine/oip", "engine/text", "engine/frontend/exchange", "engine/frontend", "cmd/prefillonly/roles", "engine/tokenizer", "engine/weights", "engine/executor/profile", "bench", "bench/cpu", "bench/gpu", "bench/load", "cmd/prefillonly", "cmd/prefillonly/merge", "cmd/prefillonly/model", "cmd/prefillonly/video", "merging/generations", "test/soak", "tools/checkpoint", "tools/testreport", "engine/weights/catalog", "engine/weights/peft", "engine/weights/quantize", "engine/model/calibrate", "engine/dnn/golden", "engine/encoder/encodertest", "cmd/camera", "videoext/journal", "videoext/live", "internal/hub", "internal/hub/hubtest", "internal/modellist", "cmd/prefillonly/collectenv"}, "JSON stays at the edge, and where files are JSON"},
}

// pure are the packages that compute from their arguments alone, with the files that are the thin
// shell around them.
var pure = map[string][]string{
	"engine":                    {},
	"engine/batch":              {},
	"engine/wire":               {},
	"engine/oip":                {},
	"engine/board":              {},
	"engine/images":             {},
	"engine/sounds":             {},
	"engine/weights/gguf":       {},
	"engine/weights/grouped":    {},
	"engine/model/architecture": {},
	"kvcache":                   {},
	"merging":                   {},
	"merging/search":            {},
	"scheduler":                 {"server.go"},
	"scheduler/cost":            {},
	"scheduler/events":          {},
	"scheduler/executors":       {},
	"scheduler/queue":           {},
	"scheduler/residency":       {},
	"scheduler/stages":          {},
	"videoext/media":            {},
	"videoext":                  {},
	"videoext/accuracy":         {},
	"videoext/drift":            {},
	"videoext/link":             {"conn.go", "shaper.go"},
	"videoext/scene":            {},
	"videoext/session":          {},
	"videoext/motion":           {},
	"videoext/methods":          {},
	"videoext/method":           {},
	"videoext/oneadapt":         {},
	"videoext/pipeline":         {},
	"videoext/pipeline/lidar":   {},
	"videoext/streams":          {},
}

// impureImports and impureNames are what a pure file may not use.
var (
	impureImports = []string{"os", "net", "syscall", "math/rand", "crypto/rand", "sync", "go.uber.org/zap"}
	impureNames   = map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		// Generators with a seed are fine, the global one is not.
		"rand": {"Int", "IntN", "Int64", "Uint32", "Uint64", "Float32", "Float64", "Perm", "Shuffle", "N", "NormFloat64", "ExpFloat64"},
	}
)

// maxLines bounds every source file.
const maxLines = 500

// A package is one idea that its name says. One of more lines of Go than largePackage, or of fewer than smallPackage with exactly
// one importer, has a line in its comment that gives the reason, and begins "It is one package because" or "It is apart because".
// Tests count neither as lines nor as importers; files of every build tag do. A program has no importer, and a package whose name ends
// in "test" serves tests: neither is too small.
const (
	largePackage = 3500
	smallPackage = 200
)

// generated are source files that the build makes and git ignores.
var generated = []string{"engine/tokenizer/native/src/daulet.rs"}
