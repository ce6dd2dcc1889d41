// Package presets is the settings that are simulated and compared, with the orders of other engines: cameras beside a
// language model, and requests for more models than fit.
package presets
