/** Rebuilding and growing on embedded engines. */

import { describeRebuild } from './rebuild.promises.ts'

describeRebuild('embedded', async () => ({}))
