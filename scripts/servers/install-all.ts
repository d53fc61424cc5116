/** Fetches every server and tool of the suites into the cache; exits 1 when one of them cannot be had. */

import { describeError } from '#lib/errors.ts'
import { tools } from './tools.ts'

let failed = false
// One after the other: suites run meanwhile and need the processor, and most of this waits for the network.
for (const [name, install] of Object.entries(tools)) {
  try {
    await install()
    console.log(`${name} is there`)
  } catch (error) {
    failed = true
    console.error(`${name} could not be fetched: ${describeError(error)}`)
  }
}
process.exitCode = failed ? 1 : 0
