/** The vector engine's contract, run on the exact driver. */

import { embeddedVectorsHarness } from '#test/support/embedded-vectors.ts'
import { describeVectors } from './vectors.contract.ts'

describeVectors('exact', embeddedVectorsHarness('exact'))
