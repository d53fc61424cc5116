/** The consumer runtime keeps its promises on the embedded log. */

import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import { describeConsumer } from './consumer.promises.ts'

describeConsumer('embedded', async () => openEmbeddedLog({ directory: temporaryFolder() }))
