/** The vector engine's contract, run on the embedded driver. */

import { embeddedVectorsHarness } from '#test/support/embedded-vectors.ts'
import { describeVectors } from './vectors.contract.ts'

describeVectors('embedded', embeddedVectorsHarness('zvec'))
