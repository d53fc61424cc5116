import com.marcnuri.helm.Helm;
import java.nio.file.Path;

/** `helm lint --strict` and `helm template` of a chart: Render CHART VALUES. Prints the manifests; ends badly for a fault. */
public class Render {
  public static void main(String[] args) throws Exception {
    Path chart = Path.of(args[0]);
    var lint = new Helm(chart).lint().strict().call();
    lint.getMessages().forEach(System.err::println);
    if (lint.isFailed()) System.exit(1);
    var template = new Helm(chart).template().withName("demo").withNamespace("fleet").withKubeVersion("1.33.0");
    System.out.println(template.withValuesFile(Path.of(args[1])).call());
  }
}
