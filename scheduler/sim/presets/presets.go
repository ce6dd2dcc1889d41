// Package presets is what is simulated and compared in the world of package sim: settings, and the orders of other engines.
//
//   - Machine: GPUs, language models and engines of the PrefillOnly paper; the engines are configurations of the scheduler.
//   - Cameras: promised streams and gradients beside a language model.
//   - Swaps: requests for more models than fit, with other servers' orders of whole models.
//   - Feeds: camera streams for more models than fit, with GEMEL's planned round robin.
//   - Stages: CPU stages of requests on a host's processors, with the systems of the report on asynchronous pre- and postprocessing.
package presets
