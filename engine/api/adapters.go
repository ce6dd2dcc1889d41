package api

import "encoding/json"

// Adapters are the fields in which bodies of other servers name adapters of weights, such as LoRA's. Here the model's name says which, and
// an answer of the weights alone would be another one.
type Adapters struct {
	LoRARequest   json.RawMessage `json:"lora_request" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
	LoRAPath      json.RawMessage `json:"lora_path" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
	LoRAName      json.RawMessage `json:"lora_name" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
	LoRAAdapters  json.RawMessage `json:"lora_adapters" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
	LoRA          json.RawMessage `json:"lora" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
	AdapterID     json.RawMessage `json:"adapter_id" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
	AdapterSource json.RawMessage `json:"adapter_source" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
	AdapterList   json.RawMessage `json:"adapters" only:"[]|{}|\"\"" refused:"names an adapter, which is asked for as the model here: serve it by --lora-modules, and give its name as model"`
}
