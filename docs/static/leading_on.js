// Leads an address such as ops.html#cellbridge.runtime.ops.relu on to the page that has the entry today.
function leadOn() {
  const list = document.getElementById("pages-of-names");
  const anchor = decodeURIComponent(location.hash.slice(1));
  const start = `${list.dataset.package}.`;
  if (!anchor.startsWith(start) || document.getElementById(anchor)) return;
  const [name] = anchor.slice(start.length).split("."); // a method has the page of its class
  const pages = Object.entries(JSON.parse(list.textContent));
  const found = pages.find(([, names]) => names.split(" ").includes(name));
  if (found) location.replace(`${found[0]}#${anchor}`);
}

addEventListener("hashchange", leadOn);
leadOn();
