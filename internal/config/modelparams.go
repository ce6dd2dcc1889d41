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
		Help:  "directory of a Hugging Face checkpoint, the name of one in the hub (org/name or org/name@revision), which is downloaded at the start unless it is in the local Hugging Face cache, or the .onnx file of a network, or a directory with one; must be given",
		field: func(m *Model) any { return &m.Path },
	}, {
		Name: "revision", Value: "REVISION",
		Help:  "branch, tag or commit of a model that is given by its name in the hub; default: main",
		field: func(m *Model) any { return &m.Revision },
	}, {
		Name: "name", Value: "NAME",
		Help:  "name that requests give, or a list of them; default: the directory's or file's own name, or the ID",
		field: func(m *Model) any { return &m.Names },
	}, {
		Name: "task", Value: "TASK", Choices: []string{TaskGenerate, TaskInfer},
		Help:  "what the model is asked for: generate, the next tokens and their probabilities, of an LLM; infer, tensors, of a network; default: what its files are",
		field: func(m *Model) any { return &m.Task },
	}, {
		Name: "devices", Value: "DEVICE",
		Help:  "executors that run it, by their devices, as --device has them: cuda:0,1; default: all",
		field: func(m *Model) any { return &m.Devices },
	}, {
		Name: "keep", Value: "WHEN",
		Help:  "always: it is loaded first and its weights never leave the device; on-demand: they leave when others need the room; {idle: 5m}: also after so long without a request; default: always for one model, on-demand for several",
		field: func(m *Model) any { return &m.Keep },
	}, {
		Name: "cache-share", Value: "SHARE",
		Help:  "share of the prefix cache's memory that is for this model; default: an equal part of what the others leave",
		field: func(m *Model) any { return &m.CacheShare },
	}, {
		Name: "max-model-len", Value: "TOKENS",
		Help:  "longest prompt plus answer; default: --max-model-len",
		field: func(m *Model) any { return &m.MaxModelLen },
	}, {
		Name: "chat-template", Value: "FILE",
		Help:  "Jinja chat template to use in place of the checkpoint's own",
		field: func(m *Model) any { return &m.ChatTemplate },
	}, {
		Name: "hf-overrides", Value: "MAP",
		Help:  "keys that the checkpoint's config.json lacks, as vLLM has them: classifier_from_token, the tokens that say no and yes, makes a language model a ranker; is_original_qwen3_reranker: true, it is one that reads pairs as Qwen3-Reranker does",
		field: func(m *Model) any { return &m.Overrides },
	}, {
		Name: "profile", Value: "FILE",
		Help:  "cost model of this model on its device; default: the one that `prefillonly profile` has stored, if any",
		field: func(m *Model) any { return &m.Profile },
	}, {
		Name: "image", Value: "MAP",
		Help:  "how pictures become a network's input: mean and scale of a channel's values of 0 to 255, (v - mean) / scale, each one number or one a channel; order: RGB or BGR; layout: NCHW or NHWC, default: by the input's shape; size: [height, width], default: the input's; letterbox: the grey, 0 to 255, around a picture that is not to be stretched",
		field: func(m *Model) any { return &m.Image },
	}, {
		Name: "decoder", Value: "NAME",
		Help:  "what a network's outputs mean, for `prefillonly video detect`: yolox and others",
		field: func(m *Model) any { return &m.Decoder },
	}, {
		Name: "work-memory", Value: "SIZE",
		Help:  "memory that a pass of a network may compute in, which bounds its inputs; default: what inputs of its own shapes and their gradient take, and where batch or shapes are free at least four times what a frame takes, and 16MiB",
		field: func(m *Model) any { return &m.WorkMemory },
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
