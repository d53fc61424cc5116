/** Rebuilding and growing on embedded engines. */

import { layMirrorCluster } from '../support/mirror.ts'
import { copyCluster } from '../support/relational.ts'
import { temporaryFolder } from '../support/temporary.ts'
import { describeRebuild } from './rebuild.promises.ts'

/** Clusters are copied: making two takes seconds. */
describeRebuild('embedded', async () => {
  const home = temporaryFolder()
  await copyCluster(home)
  await layMirrorCluster(home)
  return { FLOTILLA_HOME: home }
})
