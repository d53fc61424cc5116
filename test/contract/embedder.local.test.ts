/** The contract of the embedder, run on the local driver in both of its kinds. */

import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { describeEmbedder } from './embedder.contract.ts'

describeEmbedder('local', { open: async () => openLocalEmbedder() })
describeEmbedder('lexical', { open: async () => openLocalEmbedder('lexical') })
