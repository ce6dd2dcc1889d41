package config

import (
	"strings"
)

// ModelParam is one key of a model in the list of models.
type ModelParam struct {
	Name    string
	Value   string   // what the help calls the value
	Choices []string // the values there are; nil for any
	Help    string

	field func(*Model) any // the pointer to set
}

// ModelParams is the table of the keys of a model.
var ModelParams = []ModelParam{
	{
		Name: "path", Value: "DIR|ID|FILE",
		Help:  "directory of a Hugging Face checkpoint, its name in the hub (org/name or org/name@revision, downloaded at the start unless it is in the local cache), a GGUF file (of several parts, the first), a network's .onnx file, or a directory with one; required",
		field: func(m *Model) any { return &m.Path },
	}, {
		Name: "revision", Value: "REVISION",
		Help:  "branch, tag or commit of a model of the Hugging Face hub; default: main",
		field: func(m *Model) any { return &m.Revision },
	}, {
		Name: "name", Value: "NAME",
		Help:  "name of the model in requests, or a list of names; default: the name of the directory or file, or the ID",
		field: func(m *Model) any { return &m.Names },
	}, {
		Name: "task", Value: "TASK", Choices: []string{TaskGenerate, TaskInfer},
		Help:  "generate: the next tokens and their probabilities, of an LLM; infer: tensors, of a network; default: by the model's files",
		field: func(m *Model) any { return &m.Task },
	}, {
		Name: "devices", Value: "DEVICE",
		Help:  "executors that run the model, by their devices as in --device: cuda:0,1; default: all",
		field: func(m *Model) any { return &m.Devices },
	}, {
		Name: "keep", Value: "WHEN",
		Help:  "when the weights leave the device: always: never, and they are loaded first; on-demand: when other models need the room; {idle: 5m}: also after so long without a request; default: always for one model, on-demand for several",
		field: func(m *Model) any { return &m.Keep },
	}, {
		Name: "cache-share", Value: "SHARE",
		Help:  "share of the prefix cache's memory for this model; default: an equal part of what other models leave",
		field: func(m *Model) any { return &m.CacheShare },
	}, {
		Name: "max-model-len", Value: "TOKENS",
		Help:  "longest prompt and answer together; default: --max-model-len",
		field: func(m *Model) any { return &m.MaxModelLen },
	}, {
		Name: "chat-template", Value: "FILE",
		Help:  "file of a Jinja chat template that replaces the checkpoint's own",
		field: func(m *Model) any { return &m.ChatTemplate },
	}, {
		Name: "hf-overrides", Value: "MAP",
		Help:  "keys that the checkpoint's config.json lacks, as in vLLM: classifier_from_token, the tokens for no and yes, makes a language model a ranker; is_original_qwen3_reranker: true makes it one that reads pairs as Qwen3-Reranker does",
		field: func(m *Model) any { return &m.Overrides },
	}, {
		Name: "lora-modules", Value: "MAP",
		Help:  "adapters of the weights (LoRA), by the names that requests give as their model: {NAME: DIR}, each a directory where peft has saved one; on a CPU device alone",
		field: func(m *Model) any { return &m.LoRAModules },
	}, {
		Name: "profile", Value: "FILE",
		Help:  "file of the cost model of this model on its device; default: the one stored by `prefillonly profile`, if any",
		field: func(m *Model) any { return &m.Profile },
	}, {
		Name: "image", Value: "MAP",
		Help:  "how pictures become a network's input: mean and scale for channel values of 0 to 255, (v - mean) / scale, one number for all channels or one for each; order: RGB or BGR; layout: NCHW or NHWC, default: by the input's shape; size: [height, width], default: the input's; letterbox: grey level, 0 to 255, of the border that keeps a picture's proportions, default: pictures are stretched",
		field: func(m *Model) any { return &m.Image },
	}, {
		Name: "decoder", Value: "NAME",
		Help:  "meaning of a network's outputs: yolox and others, for `prefillonly video detect`; ctc: the outputs best and score are added, the likeliest symbol of each step and its value",
		field: func(m *Model) any { return &m.Decoder },
	}, {
		Name: "pipeline", Value: "KIND", Choices: []string{PipelineOCR, PipelineSpeech},
		Help:  "ocr: the path is a folder of networks that find and read lines of text, asked at /v1/ocr; speech: the path is a network or a folder with one that hears symbols in sound, asked at /v1/audio/transcriptions",
		field: func(m *Model) any { return &m.Pipeline },
	}, {
		Name: "networks", Value: "MAP",
		Help:  "files of a pipeline's networks, below its path: detect, direct (whether lines are upside down) and recognize, or recognize and silence (where nobody speaks); default: by det, cls and rec in their names, or the only one, and no silence",
		field: func(m *Model) any { return &m.Networks },
	}, {
		Name: "alphabet", Value: "FILE",
		Help:  "file below a pipeline's path of the symbols that it recognizes, one a line, or of JSON; default: those that the network's file names or, of speech, vocab.json or alphabet.txt beside it",
		field: func(m *Model) any { return &m.Alphabet },
	}, {
		Name: "work-memory", Value: "SIZE",
		Help:  "memory for the passes of a network, which limits the size of its inputs; default: enough for inputs of its own shapes and their gradient, or, where batch or shapes are free, for at least four frames, and no less than 16MiB",
		field: func(m *Model) any { return &m.WorkMemory },
	}, {
		Name: "merged", Value: "DIR",
		Help:  "directory of `prefillonly merge run --out` that has this network: what is current there is served in its place, and what becomes current later; the network at path is served as NAME@original",
		field: func(m *Model) any { return &m.Merged },
	}, {
		Name: "drift", Value: "MAP",
		Help:  "how a merged network is watched on video streams: NAME@original looks at some frames again where the device is idle, and is served again when the two agree too little; sample: part of the frames, default: 0.003; rate: of them at most so many a second, default: 1; target: least F1, default: the merge's --target",
		field: func(m *Model) any { return &m.Drift },
	},
}

// text is the value that m has for the key, in the form of a list of models; empty where it is the default.
func (p *ModelParam) text(m *Model) string {
	switch f := p.field(m).(type) {
	case *[]string:
		return strings.Join(*f, ",")
	case *Keep:
		return f.When
	case *float64:
		if *f == 0 {
			return ""
		}
		return showValue(f)
	case *Length:
		if *f == 0 {
			return ""
		}
		return showValue(f)
	case *Bytes:
		if *f == 0 {
			return ""
		}
		return showValue(f)
	default:
		return showValue(f)
	}
}
